"""Peak memory and time of the real commands on every hostile file.

`python -m tests.support.measure_hostile_files` prints a table with its maxima, and ends with 1 if a command
takes a GiB or ten seconds of CPU, or does not refuse its file; `--case WORD` measures those whose name has
the word. What is measured is the process that reads the file; it is killed after a quarter of an hour.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.support.hostile_files import CASES, COMMANDS

MOST_MIB, MOST_S = 1024, 10


def measured(arguments, directory):
    """Runs a command; its exit code, peak memory in MiB, seconds of CPU and of the clock, and last line."""
    # Linux counts what this process takes as the child's, too: nothing large may be imported here.
    said = directory / "said.txt"
    started = time.monotonic()
    process = os.fork()
    if process == 0:
        os.chdir(directory)
        output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        signal.alarm(900)  # of any clock: the machine may be busy
        os.execv(sys.executable, [sys.executable, "-m", "ttray", *arguments])
    _, status, usage = os.wait4(process, 0)
    lines = said.read_text().splitlines() or [""]
    seconds = usage.ru_utime + usage.ru_stime, time.monotonic() - started
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024, *seconds, lines[-1]


def main():
    word = sys.argv[2] if sys.argv[1:2] == ["--case"] else ""
    is_wrong, most = False, {"MiB": (0.0, ""), "s of CPU": (0.0, "")}
    with tempfile.TemporaryDirectory() as scratch:
        sound = Path(scratch, "run")
        for command in (
            (*COMMANDS["resume"], "--iterations", "2"),
            ("collect", "run/batch.parquet", "--policy", "run"),
        ):
            code, *_, line = measured(command, Path(scratch))
            assert code == 0, line
        shutil.rmtree(sound / "checkpoints" / "000001")
        print("| file | command | exit code | peak MiB | s of CPU | s |\n|---|---|---|---|---|---|")
        for name, case in CASES.items():
            for command in case.commands if word in name else ():
                directory = Path(scratch, "stranger")
                shutil.copytree(sound, directory / "run")
                case.make(directory / "run")
                code, mib, cpu_s, seconds, line = measured(COMMANDS[command], directory)
                print(
                    f"| {name!a} | {command} | {code} | {mib:.0f} | {cpu_s:.1f} | {seconds:.1f} |", flush=True
                )
                for what, found in (("MiB", mib), ("s of CPU", cpu_s)):
                    most[what] = max(most[what], (found, f"{command} of {name!a}"))
                if code != 2 or mib > MOST_MIB or cpu_s > MOST_S:
                    is_wrong = True
                    print(f"too much, or not refused: {line}", file=sys.stderr, flush=True)
                shutil.rmtree(directory)
    for what, (found, pair) in most.items():
        print(f"most {what}: {found:.4g}, {pair}")
    sys.exit(is_wrong)


if __name__ == "__main__":
    main()
