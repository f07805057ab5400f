"""What breaks where a private part of RLlib or Tune is gone."""

import tempfile

from tests.support.environments import ProbeEnv
from tests.support.small import small_config


def test_an_algorithm_without_tune_leaves_the_home_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path / "ray_results"))
    algorithm = small_config().environment(ProbeEnv).env_runners(num_env_runners=0).build_algo()
    try:
        assert algorithm.logdir == tempfile.gettempdir()
        assert list(tmp_path.iterdir()) == []
    finally:
        algorithm.stop()
