"""What `train()` costs beside sampling and optimising: the fixed overhead of one iteration."""

from __future__ import annotations

import statistics
import time

from ttray.experiments.connection import connect
from ttray.experiments.training import Run

_WARM_UP, _ROUNDS, _TARGET_MS = 5, 30, 20.0


def run() -> None:
    """Prints where the time of an iteration goes, on the dam with 0 and 2 env runners."""
    connect(num_env_runners=2)
    print(f"one iteration on the dam (γ = 0.95), medians of {_ROUNDS}, ms")
    print(f"{'runners':>7} {'train()':>9} {'sampling':>9} {'optimise':>9} {'rest':>7}   target")
    for num_env_runners in (0, 2):
        algorithm = Run("dam", num_env_runners=num_env_runners).config().build_algo()
        times = []
        for _ in range(_WARM_UP + _ROUNDS):
            started = time.perf_counter()
            result = algorithm.train()
            total = time.perf_counter() - started
            sampling = result["env_runners"]["sample_time_s"]
            optimising = result["learners"]["default_policy"]["optimise_time_s"]
            times.append((total, sampling, optimising, total - sampling - optimising))
        algorithm.stop()
        medians = [1e3 * statistics.median(column) for column in zip(*times[_WARM_UP:], strict=True)]
        total, sampling, optimising, rest = medians
        verdict = "ok" if rest <= _TARGET_MS else "missed"
        print(
            f"{num_env_runners:>7} {total:>9.1f} {sampling:>9.1f} {optimising:>9.1f} {rest:>7.1f}"
            f"   {_TARGET_MS:.0f} {verdict}"
        )


if __name__ == "__main__":
    run()
