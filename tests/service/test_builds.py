"""Workers that compute with other software than the driver are an error, not other bits in silence."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray

import ttray
from tests.support.environments import policy_for
from tests.support.service import TorchMLP, service_on
from ttray.optim.shard_bound import BoundSpec, Request
from ttray.rollout.environment import EnvironmentMaker
from ttray.service import builds
from ttray.service.builds import BuildError, build
from ttray.service.remote_evaluator import RemoteEvaluator
from ttray.service.worker import RemoteWorker
from ttray.settings.improvement import ImprovementSettings
from ttray.settings.training import SearchSettings

DAM = EnvironmentMaker.of("ttray/Dam-v0")
PLAN = ttray.dcs.uniform(5, 20)


class Joined(RemoteWorker):
    """Says what it is told for its first words, as an actor that is restarted elsewhere after joining."""

    said = 0

    def claim(self, claimed, number):
        self._claimed, self.said = claimed, number

    def _claim(self, own):
        self.said -= 1
        return self._claimed if self.said >= 0 else own

    def ping(self):
        *others, own = super().ping()
        return (*others, self._claim(own))

    def run_quota(self, work, quota):
        receipt, table = super().run_quota(work, quota)
        return replace(receipt, build=self._claim(receipt.build)), table


class Silent(RemoteWorker):
    """As of a version that did not say its build."""

    def ping(self):
        return super().ping()[0]


@pytest.fixture(scope="module")
def elsewhere(local_ray, tmp_path_factory):
    """What makes an actor start with a ttray in which one constant is another."""
    path = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(Path(ttray.__file__).parent, path / "ttray", ignore=shutil.ignore_patterns("__pycache__"))
    dam = path / "ttray/envs/dam.py"
    text = dam.read_text()
    assert text.count("DAYS_PER_YEAR = 360") == 1
    dam.write_text(text.replace("DAYS_PER_YEAR = 360", "DAYS_PER_YEAR = 361"))
    # Ray puts the directory of the driver first, so it is imported before Ray does anything.
    (path / "sitecustomize.py").write_text("import ttray\n")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return {"env_vars": {"PYTHONPATH": str(path)}}


@pytest.fixture(scope="module")
def joined(elsewhere):
    actor = ray.remote(num_cpus=0)(Joined).options(runtime_env=elsewhere).remote(DAM)
    yield actor
    ray.kill(actor)


def refused(actor):
    """The message with which a collection on an actor ends."""
    with pytest.raises(BuildError) as caught:
        service_on({0: actor}, DAM).collect(PLAN, policy_for(DAM))
    return str(caught.value)


def is_of_both(message):
    there, here = message.splitlines()[1:3]
    name, rest = here.removeprefix("here:  ").split("(source ")
    return (
        here == f"here:  {build()}"
        and there.startswith(f"there: {name}(source ")
        and there.endswith(rest.partition(")")[2])
        and there.split(": ")[1] != build()
    )


def test_a_worker_with_another_ttray_is_refused_when_it_joins(joined):
    message = refused(joined)
    assert message.startswith("env runner 0 (")
    assert is_of_both(message)


def test_a_worker_that_comes_back_with_another_ttray_is_refused_at_its_first_answer(joined):
    ray.get(joined.claim.remote(build(), 1))
    assert is_of_both(refused(joined))


def test_a_worker_that_comes_back_with_another_ttray_computes_no_bound(joined):
    ray.get(joined.claim.remote(build(), 2))
    settings = ImprovementSettings(gamma=0.9, delta=0.7, search=SearchSettings(1))
    handle = service_on({0: joined}, DAM, quotas_per_env_runner=1, determinism_check="off").collect(
        PLAN, policy_for(DAM), gamma=0.9, in_parts=True
    )
    module = TorchMLP(policy_for(DAM))
    spec = BoundSpec(handle.info, module, TorchMLP.forward, settings)
    with (
        RemoteEvaluator(spec, handle, timeout_s=60.0, num_threads=1) as holder,
        pytest.raises(BuildError, match="worker 0 computes with other software"),
    ):
        holder.answer(Request("rewards"))


def test_a_worker_that_does_not_say_its_build_is_refused(local_ray):
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    actor = ray.remote(num_cpus=0)(Silent).remote(DAM)
    try:
        assert "there: a ttray that does not say its version\n" in refused(actor)
    finally:
        ray.kill(actor)


def test_a_build_names_whatever_the_bits_depend_on(monkeypatch):
    for name, version in (("numpy", np.__version__), ("Python", sys.version.split()[0])):
        assert f"{name} {version}" in build()
    assert "ttray " in build()
    assert "torch " in build()
    assert "gymnasium " in build()
    assert "mujoco " in build()
    monkeypatch.setattr(builds, "_OTHERS", ("ttray-no-such-package",))
    assert build.__wrapped__().endswith("no ttray-no-such-package")
