"""What is in the directory one works in is found, and a checkpoint brings all that its policy needs."""

import json
import sys

import gymnasium
import pytest

import ttray
from tests.support.modules import StackModule
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.rllib.module_files import load_module

pytestmark = pytest.mark.usefixtures("local_ray")

MODULE = """
import gymnasium
from gymnasium.spaces import Box, Discrete

class Line(gymnasium.Env):
    observation_space, action_space = Box(-9.0, 9.0, (1,)), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=1).astype("float32")
        return self.x, {}

    def step(self, action):
        self.x = self.x + (0.1 if action else -0.1)
        return self.x, float(self.x[0]), False, False, {}

gymnasium.register("Line-v0", Line)
"""


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Runs a command as the installed script does: the directory it is called in is not on the path."""
    (tmp_path / "line_of_mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(tmp_path))])

    def run_command(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            run(app, [*arguments, "--json"])
        output = capsys.readouterr()
        assert left.value.code in (None, 0, 3), output.err  # 3: so few rows prove nothing
        return json.loads(output.out)

    yield run_command
    sys.modules.pop("line_of_mine", None)
    gymnasium.registry.pop("Line-v0", None)


def test_an_environment_of_this_directory_is_trained_evaluated_and_collected(call, tmp_path):
    plan = ("--horizon", "10", "--budget", "60", "--gamma", "0.9")
    done = call(
        "train", "--env", "line_of_mine:Line-v0", *plan, "--iterations", "1", "--env-runners", "0"
    )  # fmt: skip
    run_directory = done["files"]["checkpoint"]
    gymnasium.registry.pop("Line-v0")  # as in a process that never heard of it
    sys.modules.pop("line_of_mine")
    for command in (("evaluate", run_directory), ("collect", "batch.parquet", "--policy", run_directory)):
        with pytest.raises(AssertionError, match="if you trust it, name it: --env line_of_mine:Line-v0"):
            call(*command)
    assert "line_of_mine" not in sys.modules
    own = ("--env", "line_of_mine:Line-v0")
    found = call("evaluate", run_directory, *own)
    assert (found["environment"], found["horizon"], found["gamma"]) == ("line_of_mine:Line-v0", 10, 0.9)
    collected = call("collect", "batch.parquet", "--policy", run_directory, *own)
    assert collected["rows"] == 60
    judged = call("ope", "batch.parquet", "--policy", run_directory, "--max-reward", "100")
    assert judged["gamma"] == 0.9


def test_a_function_and_a_module_of_ones_own_are_rebuilt_by_who_names_them(tmp_path):
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    def short_pole(config):
        return gymnasium.make("CartPole-v1", max_episode_steps=config["limit"])

    spec = RLModuleSpec(module_class=StackModule, model_config={"hidden_sizes": (5,)})
    algorithm = (
        ttray.TTPOISConfig()
        .environment(short_pole, env_config={"limit": 30})
        .training(horizon=20, budget=100, gamma=0.9)
        .rl_module(rl_module_spec=spec)
        .debugging(seed=0, log_level="ERROR")
        .build_algo()
    )
    try:
        algorithm.train()
        algorithm.save_to_path(tmp_path)
    finally:
        algorithm.stop()
    own = {"environment": short_pole, "module_class": StackModule}
    found = ttray.evaluate(tmp_path, **own)
    assert (found.environment, found.horizon, found.gamma) == ("short_pole", 20, 0.9)
    module = load_module(tmp_path, StackModule)
    assert ttray.evaluate(tmp_path, env_config={"limit": 25}, **own) == found
    plan = ttray.dcs.truncated(20, 100, 0.9)
    arguments = {"strategy": plan, "env_config": {"limit": 30}}
    table = ttray.collect(short_pole, policy=tmp_path, module_class=StackModule, **arguments)
    assert ttray.digest(table) == ttray.digest(ttray.collect(short_pole, policy=module, **arguments))
    ttray.ope([table], policy=tmp_path, module_class=StackModule)
    with pytest.raises(ValueError, match="truncates itself after 30 steps"):
        ttray.evaluate(tmp_path, horizon=31, budget=310, **own)
    with pytest.raises(ValueError, match=r"short_pole with the arguments \{'limit': 30\}.* name it"):
        ttray.evaluate(tmp_path, module_class=StackModule)
    name = "tests.support.modules:StackModule"
    with pytest.raises(ValueError, match=f"{name} is not ttray's own; .* --module {name}, in Python"):
        ttray.ope([table], policy=tmp_path)


def test_commands_are_told_the_class_of_a_module(call, tmp_path):
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    algorithm = (
        ttray.TTPOISConfig()
        .environment("CartPole-v1")
        .training(horizon=20, budget=100, gamma=0.9)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=StackModule, model_config={"hidden_sizes": (5,)}))
        .debugging(seed=0, log_level="ERROR")
        .build_algo()
    )
    algorithm.save_to_path(tmp_path / "saved")
    algorithm.stop()
    named = ("--module", "tests.support.modules:StackModule")
    commands = (
        ("evaluate", "saved"),
        ("collect", "batch.parquet", "--policy", "saved"),
        ("ope", "batch.parquet", "--policy", "saved", "--max-reward", "1"),
    )
    for command in commands:
        call(*command, *named)
        for wrong, said in (
            ("tests.support.modules:module_for", "is no RLModule"),
            ("tests.support.modules:Nothing", "there is no class"),
            ("os:system", "is no RLModule"),
            ("nowhere", "there is no class"),
        ):
            with pytest.raises(AssertionError, match=said):
                call(*command, "--module", wrong)
        with pytest.raises(AssertionError, match="is not ttray's own"):
            call(*command)
