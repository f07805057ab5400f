"""Checkpoints without Ray: killed, cut, flipped, on a full disk; what is found afterwards is whole."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.support.damages import DAMAGES, no_file_longer_than
from ttray.runs.checkpoints import (
    MANIFEST,
    checkpoint_path,
    damage_of,
    find_checkpoint,
    newest_checkpoint,
    replace_text,
    save_checkpoint,
    writing,
)

NAMES = ("state.pkl", "deep/weights", "deep/deeper/empty")


def fill(number):
    """Writes files as an algorithm would: some of them deep, one of them empty."""

    def write(checkpoint):
        (checkpoint / "deep" / "deeper").mkdir(parents=True)
        for name in NAMES:
            content = f"{name} of {number}" if "empty" not in name else ""
            (checkpoint / name).write_text(content)

    return write


def saved(directory, *numbers, keep=3):
    for number in numbers:
        save_checkpoint(directory, number, fill(number), keep=keep)
    return directory


def names_of(directory):
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def test_the_newest_ones_are_kept_and_the_newest_is_found(tmp_path):
    assert newest_checkpoint(tmp_path) is None
    saved(tmp_path, 2, 4, 6, 8, keep=3)
    assert names_of(tmp_path) == ["000004", "000006", "000008"]
    assert newest_checkpoint(tmp_path) == checkpoint_path(tmp_path, 8) == find_checkpoint(tmp_path)
    assert (newest_checkpoint(tmp_path) / "deep/weights").read_text() == "deep/weights of 8"
    saved(tmp_path, 9_999_999, 10_000_000, keep=1)  # by number, not by letters
    assert names_of(tmp_path) == ["10000000"]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [*NAMES[:2], MANIFEST])
def test_a_damaged_newest_one_is_named_and_the_one_before_is_used(tmp_path, caplog, name, damage):
    saved(tmp_path, 1, 2)
    DAMAGES[damage](checkpoint_path(tmp_path, 2) / name)
    assert newest_checkpoint(tmp_path) == checkpoint_path(tmp_path, 1)
    (record,) = caplog.records
    assert str(checkpoint_path(tmp_path, 2)) in record.getMessage()
    assert name in record.getMessage()
    assert "\n" not in record.getMessage()
    with pytest.raises(ValueError, match=f"000002 is damaged.*{name}.*pass the directory of its run"):
        find_checkpoint(checkpoint_path(tmp_path, 2))


def test_no_byte_of_a_manifest_can_be_changed_unseen(tmp_path):
    path = checkpoint_path(saved(tmp_path, 1), 1) / MANIFEST
    whole = path.read_bytes()
    assert damage_of(path.parent) is None
    for position in range(len(whole)):
        for bit in (0x01, 0x20, 0x80):
            flipped = bytearray(whole)
            flipped[position] ^= bit
            path.write_bytes(flipped)
            assert damage_of(path.parent), (position, bit)
    for text in (
        "",
        "[]",
        "{}",
        "null",
        "1" * 5000,
        "[" * 100_000,
        '{"format": 1, "files": []}',
        '{"format": 1}',
    ):
        path.write_text(text)
        assert MANIFEST in damage_of(path.parent)


def test_a_run_of_an_earlier_version_is_not_begun_anew_over_what_it_left(tmp_path):
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(ValueError, match="holds a run of an earlier version of ttray; choose another"):
        newest_checkpoint(tmp_path)
    saved(tmp_path, 1)
    assert newest_checkpoint(tmp_path) == checkpoint_path(tmp_path, 1)


def test_files_that_came_or_went_are_damage_too(tmp_path):
    checkpoint = checkpoint_path(saved(tmp_path, 1), 1)
    (checkpoint / "deep" / "stranger").write_text("")
    assert damage_of(checkpoint) == "deep/stranger is not in the manifest"
    (checkpoint / "deep" / "stranger").unlink()
    (checkpoint / "state.pkl").unlink()
    assert damage_of(checkpoint) == "state.pkl is missing"


def test_where_none_is_whole_one_line_says_so(tmp_path):
    saved(tmp_path, 1, 2)
    for number in (1, 2):
        DAMAGES["emptied"](checkpoint_path(tmp_path, number) / "state.pkl")
    with pytest.raises(ValueError, match=r"^.*000002 is damaged .*000001 is damaged .*begin anew$"):
        newest_checkpoint(tmp_path)


def test_going_on_from_an_earlier_one_replaces_the_damaged_and_the_taken_back(tmp_path):
    saved(tmp_path, 2, 4, 6)
    for number in (4, 6):
        DAMAGES["cut"](checkpoint_path(tmp_path, number) / "state.pkl")
    saved(tmp_path, 4)
    assert names_of(tmp_path) == ["000002", "000004"]
    assert newest_checkpoint(tmp_path) == checkpoint_path(tmp_path, 4)


@pytest.mark.parametrize("size", [0, 4, 30, 200], ids="no file longer than {} bytes".format)
def test_a_full_disk_leaves_the_last_one_and_says_how_to_go_on(tmp_path, size):
    def write(checkpoint):
        fill(2)(checkpoint)
        (checkpoint / "large").write_bytes(bytes(150))

    saved(tmp_path, 1)
    with no_file_longer_than(size), pytest.raises(OSError) as failed, writing(tmp_path):  # noqa: PT011
        save_checkpoint(tmp_path, 2, write, keep=3)
    (line,) = str(failed.value).splitlines()
    assert f"{tmp_path} cannot be written to: File too large" in line
    assert f"run the same command again: it goes on from {checkpoint_path(tmp_path, 1)}" in line
    assert names_of(tmp_path) == ["000001"]  # what was half written makes room
    assert newest_checkpoint(tmp_path) == checkpoint_path(tmp_path, 1)
    with pytest.raises(OSError, match="it begins anew"), writing(tmp_path / "new"):
        raise OSError(28, os.strerror(28))


def test_a_text_is_replaced_whole_or_not_at_all(tmp_path):
    replace_text(tmp_path / "run.json", "former")
    with no_file_longer_than(3), pytest.raises(OSError, match="File too large"):
        replace_text(tmp_path / "run.json", "longer")
    assert (tmp_path / "run.json").read_text() == "former"
    replace_text(tmp_path / "run.json", "longer")
    assert (tmp_path / "run.json").read_text() == "longer"


# Trains, in a way: every state is a function of the one before.
PROGRAM = """
import hashlib, sys
from pathlib import Path
from ttray.runs.checkpoints import newest_checkpoint, save_checkpoint
from ttray.runs.directories import locked

directory = Path(sys.argv[1])
with locked(directory):
    newest = newest_checkpoint(directory)
    number, state = (0, b"") if newest is None else (int(newest.name), (newest / "state").read_bytes())

    def write(checkpoint):
        for part in range(20):
            (checkpoint / f"part-{part}").write_bytes(state * 500)
        (checkpoint / "state").write_bytes(state)

    while True:
        number, state = number + 1, hashlib.sha256(state).digest()
        save_checkpoint(directory, number, write, keep=2)
        print(number, flush=True)
"""


def state_after(number):
    state = b""
    for _ in range(number):
        state = hashlib.sha256(state).digest()
    return state


def test_whenever_a_saving_process_is_killed_the_next_goes_on_with_the_same_bits(tmp_path, caplog):
    moments = random.Random(5)
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, tmp_path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        process.stdout.readline()
        time.sleep(moments.uniform(0.0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        told, complaint = process.communicate()
        assert complaint == ""  # it found no damage where the one before was killed
        newest = newest_checkpoint(tmp_path)
        assert int(newest.name) >= max(map(int, told.split()), default=1)  # what was told is saved
        assert (newest / "state").read_bytes() == state_after(int(newest.name))
    assert caplog.records == []
