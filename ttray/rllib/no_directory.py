"""An algorithm that leaves no directory behind.

RLlib makes one under `~/ray_results` for every algorithm that is built, and writes nothing into it. Tune
gives its trials a directory of their own, which stays as it is.
"""

from __future__ import annotations

import tempfile

from ray.rllib.algorithms.algorithm import Algorithm


class NoDirectory(Algorithm):
    """RLlib's algorithm; its `logdir` outside of Tune is the directory for temporary files."""

    def _setup_logdir(self) -> None:
        if self._storage:
            super()._setup_logdir()
        else:
            self._logdir = tempfile.gettempdir()
