"""A program whose four threads collect first, all at once, and which then forks; prints what came of it."""

import gc
import multiprocessing
import os
import signal
import sys
import threading

import ttray

PATIENCE_S = 120  # of a fork that hangs


def collect(num_env_runners):
    # Rows enough for torch to share them among threads, and for Ray to put them into its store.
    strategy = ttray.dcs.uniform(5, 20_000)
    return ttray.collect("CartPole-v1", strategy=strategy, num_slots=4_000, num_env_runners=num_env_runners)


def in_four_threads():
    tables, start = [], threading.Barrier(4)

    def collect_first():
        start.wait()
        tables.append(collect(1))

    threads = [threading.Thread(target=collect_first) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tables


def say(*words):
    print(*words, flush=True)


def collect_in_a_fork(tables):
    """Never returns: a fork that was made by hand ends as every program does."""
    signal.alarm(PATIENCE_S)
    tables.clear()
    gc.collect()
    say("fork", ttray.digest(collect(0)))
    try:
        collect(1)
    except RuntimeError as problem:
        say("refused", problem)
    sys.exit(3)


def main():
    tables = in_four_threads()
    for table in tables:
        say("thread", ttray.digest(table))
    here = collect(0)  # torch's threads are there from now on
    child = os.fork()
    if child == 0:
        collect_in_a_fork(tables)
    say("status", os.waitpid(child, 0)[1])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for answer in pool.map_async(ttray.digest, [here, here]).get(PATIENCE_S):
            say("pool", answer)
    say("parent", ttray.digest(tables[0]))
    say("parent", ttray.digest(collect(1)))


if __name__ == "__main__":
    main()
