"""One local Ray and one set of actors for all tests of the service: starting them takes seconds."""

import json
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch

from tests.support import environments, modules
from tests.support.environments import SEED, ProbeEnv, mixed_strategy, policy_for, probe
from ttray.data.batch import BatchInfo, digest
from ttray.data.validation import validate
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.channel import ActorChannel
from ttray.service.service import RolloutService, plan_quotas
from ttray.service.worker import RolloutWorker, Work, sign_of_life
from ttray.settings.training import DispatchSettings

NUM_ACTORS = 4
ENVIRONMENTS = ("ttray/Dam-v0", "ttray/SupplyChain-v0", "ttray/Reacher-v0", "CartPole-v1")


def resident_bytes():
    """Memory of this process alone: without what it shares with the object store."""
    fields = Path("/proc/self/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


class TorchMLP(torch.nn.Module):
    """A policy of the service as a torch module, to be improved."""

    def __init__(self, policy):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.tensor(weight) for weight in policy.weights)
        self.biases = torch.nn.ParameterList(torch.tensor(bias) for bias in policy.biases)

    def forward(self, obs):
        *inner, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in inner:
            obs = torch.tanh(obs @ weight + bias)
        return obs @ last[0] + last[1]


class AnyWorker:
    """A rollout worker per environment, chosen by the name in the work: one process serves every test."""

    def __init__(self, makers: dict[str, EnvironmentMaker]) -> None:
        self._workers = {name: RolloutWorker(maker) for name, maker in makers.items()}

    def run_quota(self, work, quota):
        return self._workers[work.info.environment].run_quota(work, quota)

    def answer_parts(self, question, values):
        return next(iter(self._workers.values())).answer_parts(question, values)

    def ping(self):
        return sign_of_life()

    def rss(self):
        return resident_bytes()


class Given:
    """Supplies actors that somebody else has started and will end."""

    def __init__(self, actors):
        self.given = {number: ActorChannel(actor) for number, actor in actors.items()}

    def channels(self, alive, demand):
        return self.given

    def stop(self, idle):
        pass


def service_on(actors, maker, **settings):
    """A rollout service on actors that are there already."""
    return RolloutService(maker, supplier=Given(actors), settings=DispatchSettings(**settings))


def local_service(maker, **settings):
    return RolloutService(maker, settings=DispatchSettings(**settings))


@dataclass
class Works:
    """What there is to collect, and what comes out of it in this process."""

    makers: dict[str, EnvironmentMaker]

    def work(self, name="ProbeEnv", *, strategy=None, iteration=environments.ITERATION, slots=16):
        maker = self.makers[name]
        facts = maker.facts()
        info = BatchInfo(
            name, SEED, iteration, strategy or mixed_strategy(), 0.9, facts.distribution.describe()
        )
        return Work(info, policy_for(maker), slots)

    def undisturbed(self, work):
        """The digest of the same work in this process."""
        return digest(local_service(self.makers[work.info.environment]).collect_work(work).batch().table)


@dataclass
class Service(Works):
    """Running actors, and the switch that makes the probe environment in them fail."""

    actors: dict[int, Any]
    faults: Path

    def fail(self, **faults):
        """Tells the probe environment what to do from its next reset on; nothing makes it healthy."""
        settings = {"fault": None, "bad_seed": None, "bad_step": 0, "marker": None, "delay_s": 0.0}
        text = json.dumps({**settings, **faults})
        scratch = self.faults.with_suffix(".new")
        scratch.write_text(text)
        scratch.rename(self.faults)  # at once, because actors may be reading it

    def rollouts(self, num_actors=NUM_ACTORS, **settings):
        """A rollout service on the first actors; without copies, so that faults can be counted."""
        actors = {number: self.actors[number] for number in range(num_actors)}
        defaults = {"quotas_per_env_runner": 2, "backup_quotas": False}
        return service_on(actors, self.makers["ProbeEnv"], **(defaults | settings))

    def pids(self, num_actors=NUM_ACTORS):
        """The processes of the actors, when all of them are up: on a busy machine that takes minutes."""
        deadline = time.monotonic() + 200
        while True:
            try:
                signs = [self.actors[number].ping.remote() for number in range(num_actors)]
                return [pid for pid, *_ in ray.get(signs, timeout=200)]
            except ray.exceptions.RayActorError:
                assert time.monotonic() < deadline
                time.sleep(0.3)

    def quota_of(self, work, trajectory, num_actors=NUM_ACTORS):
        """The quota that a trajectory belongs to, with this fixture's settings."""
        quotas = plan_quotas(work, num_actors, DispatchSettings(quotas_per_env_runner=2))
        return next(quota for quota in quotas if trajectory in quota.trajectories)


def checked_digest(handle, work):
    table = handle.batch().table
    validate(table, work.info.strategy)
    return digest(table)


@contextmanager
def started_service(faults):
    """A service whose actors live for all tests of a process; `faults` is the file that breaks `ProbeEnv`."""
    makers = {name: EnvironmentMaker.of(name) for name in ENVIRONMENTS}
    makers["Pendulum-v1"] = EnvironmentMaker.of("Pendulum-v1")
    makers["ProbeEnv"] = probe(faults=str(faults))
    makers["images"] = EnvironmentMaker("images", ProbeEnv, {"observation": "image"})
    # By value: the actors need not find the tests on their path.
    ray.cloudpickle.register_pickle_by_value(environments)
    ray.cloudpickle.register_pickle_by_value(modules)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    actor_class = ray.remote(num_cpus=1, max_restarts=-1)(AnyWorker)
    service = Service(makers, {number: actor_class.remote(makers) for number in range(NUM_ACTORS)}, faults)
    yield service
    for actor in service.actors.values():
        ray.kill(actor)
