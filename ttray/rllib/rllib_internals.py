"""All private parts of RLlib and Tune that ttray uses, each with its reason.

It may change in any release of Ray. tests/rllib/test_rllib_internals.py says what breaks then.
"""

from __future__ import annotations

import tempfile
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm


class QuietAlgorithm(Algorithm):
    """An algorithm that leaves the home directory alone.

    RLlib has no public way to say so. In a version that asks elsewhere, an empty directory would be made
    under `~/ray_results`.
    """

    def __init__(self, config: Any = None, env: Any = None, **kwargs: Any) -> None:
        self._is_of_tune = kwargs.get("storage") is not None
        super().__init__(config, env, **kwargs)

    def _setup_logdir(self) -> None:
        if self._is_of_tune:
            super()._setup_logdir()

    @property
    def logdir(self) -> str:
        """Of the trial; outside of Tune the directory for temporary files, where nothing is written."""
        return super().logdir if self._is_of_tune else tempfile.gettempdir()
