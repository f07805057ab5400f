"""A real training that is killed again and again while it saves, beside one that is not.

    python -m tests.support.kill_while_saving 50

Prints a line per kill, and in the end whether all checkpoints were found whole and the weights are the same
bits. About ten seconds per kill, because every life loads RLlib; the tests kill a process without it.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ray

from tests.support.programs import ROOT, joining
from ttray.runs.checkpoints import newest_checkpoint
from ttray.runs.curves import read_csv
from ttray.service.connection import start_embedded

ITERATIONS = 400


def start(directory):
    command = [
        *(sys.executable, str(ROOT / "jobs" / "train.py"), "--env", "ttray/SupplyChain-v0"),
        *("--horizon", "10", "--budget", "60", "--env-runners", "0", "--checkpoint-every", "1"),
        *("--iterations", str(ITERATIONS), "--directory", str(directory)),
    ]
    return subprocess.Popen(
        command, env=joining(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def kill_while_saving(directory, moments):
    """Starts a life and ends it in one of its first savings; returns what it complained of."""
    process, unfinished = start(directory), directory / "checkpoints" / "unfinished"
    for _ in range(moments.randint(1, 4)):
        for is_there in (False, True):
            while unfinished.exists() is not is_there and process.poll() is None:
                time.sleep(0.0002)
    time.sleep(moments.uniform(0.0, 0.06))
    os.kill(process.pid, signal.SIGKILL)
    return process.communicate()[1]


def final(directory):
    checkpoint = newest_checkpoint(directory)
    returns = [row["discounted_return"] for row in read_csv(checkpoint / "metrics.csv")]
    return (checkpoint / "policy.safetensors").read_bytes(), returns


def main(num_kills):
    start_embedded(2)
    moments, place = random.Random(0), Path(tempfile.mkdtemp())
    calm, killed = place / "calm", place / "killed"
    assert start(calm).wait() == 0
    cut_short = 0
    for number in range(num_kills):
        complaint = kill_while_saving(killed, moments)
        assert complaint == "", complaint  # of what the kill before it had left
        is_cut = (killed / "checkpoints" / "unfinished").exists()
        cut_short += is_cut
        found = newest_checkpoint(killed)
        print(
            f"kill {number + 1}: {found and found.name}, {'in' if is_cut else 'after'} a saving", flush=True
        )
    assert start(killed).wait() == 0
    same = final(killed) == final(calm)
    print(f"{num_kills} kills, {cut_short} of them in a saving; the same bits: {same}")
    ray.shutdown()
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
