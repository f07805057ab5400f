"""Directories of evaluations that somebody else has written, or that were damaged: refused in one line."""

import json
import os

import pytest

import ttray
from tests.runs.test_to_accuracy import KEPT, guesses
from tests.support.hostile_files import sparse
from ttray.runs.round_files import digest_of
from ttray.runs.to_accuracy import EvaluationStopped

MAX_MESSAGE = 400


@pytest.fixture(scope="module")
def first_round(tmp_path_factory):
    """The settings and the first round of an evaluation."""
    directory = tmp_path_factory.mktemp("begun")

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(EvaluationStopped):
        ttray.evaluate(guesses, directory=directory, on_round=stop, **KEPT)
    return (directory / "evaluation.json").read_bytes(), (
        directory / "rounds" / "000000.parquet"
    ).read_bytes()


@pytest.fixture
def begun(first_round, tmp_path):
    settings, table = first_round
    directory = tmp_path / "kept"
    (directory / "rounds").mkdir(parents=True)
    (directory / "evaluation.json").write_bytes(settings)
    (directory / "rounds" / "000000.parquet").write_bytes(table)
    return directory


def cut(directory):
    path = directory / "rounds" / "000000.parquet"
    path.write_bytes(path.read_bytes()[:1000])


def flip(directory):
    path = directory / "rounds" / "000000.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 255
    path.write_bytes(data)


def repeat(directory):
    path = directory / "rounds" / "000000.parquet"
    (directory / "rounds" / "000001.parquet").write_bytes(path.read_bytes())


def link_round(directory):
    path = directory / "rounds" / "000000.parquet"
    path.rename(directory.parent / "elsewhere.parquet")
    path.symlink_to(directory.parent / "elsewhere.parquet")


def link_rounds(directory):
    (directory / "rounds").rename(directory.parent / "elsewhere")
    (directory / "rounds").symlink_to(directory.parent / "elsewhere")


def pipe(directory):
    path = directory / "rounds" / "000000.parquet"
    path.unlink()
    os.mkfifo(path)


def file_of_rounds(directory):
    (directory / "rounds" / "000000.parquet").unlink()
    (directory / "rounds").rmdir()
    (directory / "rounds").write_text("rounds")


def settings(content):
    def write(directory):
        (directory / "evaluation.json").write_text(content)

    return write


def link_settings(directory):
    (directory / "evaluation.json").rename(directory.parent / "elsewhere.json")
    (directory / "evaluation.json").symlink_to(directory.parent / "elsewhere.json")


def without_settings(directory):
    (directory / "evaluation.json").unlink()


DAMAGES = {
    "a round is cut short": (cut, "000000.parquet is not a ttray batch"),
    "a round has another byte": (flip, "000000.parquet is not a ttray batch|other bits"),
    "a round is another one": (repeat, "000001.parquet is no round of this evaluation"),
    "a round is a link": (link_round, "links in here are not followed"),
    "a round is a pipe": (pipe, "it is no regular file"),
    "all rounds are a link": (link_rounds, "is no directory of rounds but a link"),
    "the rounds are a file": (file_of_rounds, "is no directory of rounds but a link or a file"),
    "other settings": (
        settings(json.dumps({"format": 1, "seed": "\x1b[2J" * 99})),
        "holds an evaluation with",
    ),
    "settings of other names": (settings(json.dumps({"\x1b[2J" * 99: 1})), "holds an evaluation with"),
    "settings of another version": (settings('{"format": 2}'), "holds an evaluation with"),
    "settings that are a list": (settings("[]"), "must hold names and values"),
    "settings without an end": (settings('{"format": 1'), "is no JSON that can be used"),
    "settings nested too deeply": (settings("[" * 100_000), "is no JSON that can be used"),
    "settings that are a link": (link_settings, "cannot be read: it is a link"),
    "no settings": (without_settings, "holds rounds without evaluation.json"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_no_evaluation_is_refused(begun, damage):
    spoil, message = DAMAGES[damage]
    spoil(begun)
    with pytest.raises(ValueError, match=message) as refused:
        ttray.evaluate(guesses, directory=begun, **KEPT)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < MAX_MESSAGE


@pytest.mark.parametrize("kind", ["a file", "a directory"])
def test_a_policy_without_an_end_is_not_read_for_its_digest(tmp_path, kind):
    policy = tmp_path / "policy"
    if kind == "a file":
        sparse(policy)
    else:
        policy.mkdir()
        (policy / "0").write_text("first")
        sparse(policy / "1", 2**32 - 4)  # together one byte too many
    with pytest.raises(ValueError, match=r"policy.* is too large for a policy whose rounds are kept"):
        digest_of(policy)


def test_undamaged_it_goes_on(begun):
    assert ttray.evaluate(guesses, directory=begun, **KEPT) == ttray.evaluate(guesses, **KEPT)
