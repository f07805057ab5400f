"""Sample Factory's sampler."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.cases import Case, Sample

PYTHON = "TTRAY_SAMPLE_FACTORY"
"""Variable with the path of a Python that has sample-factory. It needs an older gymnasium than ttray does."""


def can_sample(case: Case) -> bool:
    """Whether there is such a Python, and the environment is one of gymnasium's own, which it can make."""
    return PYTHON in os.environ and "/" not in case.environment


@contextmanager
def sample_factory(case: Case, num_workers: int, num_slots: int) -> Iterator[Sample]:
    """Samples with Sample Factory's `SyncSamplingAPI`, which has no learner.

    Beside its workers, which step the environments, a process of its own has the network; both take turns
    with halves of the slots, as is its default. It would sample ahead while others are measured, so its
    processes are stopped then.

    Args:
        case: What to sample.
        num_workers: Its workers.
        num_slots: Environments per worker.
    """
    program = Path(__file__).with_name("sample_factory_program.py")
    words = [case.environment, case.horizon, num_workers, num_slots]
    process = subprocess.Popen(
        # Isolated, because this module has the name of the library.
        [os.environ[PYTHON], "-I", program, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # its log
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    questions, answers = process.stdin, process.stdout

    def answer() -> int:
        line = answers.readline()
        if not line:
            raise RuntimeError(f"Sample Factory's program ended with status {process.wait()}")
        return int(line)

    def sample(num_steps: int) -> int:
        os.killpg(process.pid, signal.SIGCONT)
        with suppress(BrokenPipeError):  # `answer` says more
            print(num_steps, file=questions, flush=True)
        made = answer()
        os.killpg(process.pid, signal.SIGSTOP)
        return made

    try:
        answer()  # it is ready
        yield sample
    finally:
        with suppress(ProcessLookupError, BrokenPipeError):
            os.killpg(process.pid, signal.SIGCONT)
            questions.close()
        process.wait()
