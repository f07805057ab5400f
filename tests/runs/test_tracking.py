"""What is told of a run while it goes on, and who may write into its directory."""

import os
import subprocess
import sys
import time

import pytest
from tensorboardX.proto.event_pb2 import Event

from ttray.runs.curves import read_csv
from ttray.runs.directories import check_directory, locked
from ttray.runs.tracking import Tracking, check_trackers


def row(iteration):
    return {"iteration": iteration, "discounted_return": -1.5 * iteration}


def events(directory):
    """(tag, step, value) of all TensorBoard events in the order of writing, and the purges between them."""
    found = []
    for path in sorted(directory.glob("events.out.tfevents.*")):
        data = path.read_bytes()
        while (
            len(data) >= 12 + int.from_bytes(data[:8], "little") + 4
        ):  # length, its checksum, the event, its checksum
            size = int.from_bytes(data[:8], "little")
            event = Event.FromString(data[12 : 12 + size])
            data = data[12 + size + 4 :]
            found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
            if event.HasField("session_log"):
                found.append(("purge", event.step, event.session_log.status))
    return found


def test_every_iteration_is_in_the_files_before_the_next(tmp_path):
    with Tracking(tmp_path, []) as tracking:
        for iteration in (1, 2):
            tracking.add(row(iteration))
            assert read_csv(tmp_path / "metrics.csv")[-1] == row(iteration)
            until = time.monotonic() + 30.0  # a second at most, but for a busy machine
            while ("discounted_return", iteration, -1.5 * iteration) not in events(tmp_path):
                assert time.monotonic() < until
                time.sleep(0.05)


def test_a_resumed_run_takes_back_what_came_after_its_checkpoint(tmp_path):
    with Tracking(tmp_path, []) as tracking:
        for iteration in (1, 2, 3):
            tracking.add(row(iteration))
    with Tracking(tmp_path, [row(1)]) as tracking:
        tracking.add(row(2))
        assert read_csv(tmp_path / "metrics.csv") == [row(1), row(2)]
    assert any(kind == "purge" and step == 2 for kind, step, _ in events(tmp_path))


def test_rows_that_were_read_are_written_as_they_were(tmp_path):
    path = tmp_path / "metrics.csv"
    with Tracking(tmp_path, []) as tracking:
        tracking.add(row(1) | {"step_size": float("inf")})
    before = path.read_text()
    with Tracking(tmp_path, read_csv(path)):
        assert path.read_text() == before


def test_trackers_are_checked_by_name_and_package():
    check_trackers([])
    with pytest.raises(ValueError, match="one of wandb, mlflow, found 'paper'"):
        check_trackers(["paper"])


def test_a_second_process_is_refused_while_the_first_trains(tmp_path):
    program = (
        "import sys; from pathlib import Path; from ttray.runs.directories import locked\n"
        "try:\n    with locked(Path(sys.argv[1])): print('mine')\nexcept ValueError as no: print(no)"
    )

    def other():
        done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True)
        return done.stdout.strip()

    with locked(tmp_path):
        assert f"process {os.getpid()} is writing into {tmp_path}" in other()
    assert other() == "mine"


def test_directories_that_cannot_be_written_are_refused_with_what_is_in_the_way(tmp_path):
    check_directory(tmp_path / "new" / "deeper")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file is a file; choose another directory"):
        check_directory(tmp_path / "file" / "run")
    if os.getuid():  # root may write everywhere
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(ValueError, match="cannot be written"):
            check_directory(tmp_path / "closed" / "run")
