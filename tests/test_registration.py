"""`import ttray` alone makes environments and algorithms known by name, whoever is imported first."""

import importlib
import subprocess
import sys
import threading

import pytest

import ttray
from ttray.registration import when_imported

ENVIRONMENTS = """
import warnings
warnings.simplefilter("error")  # gymnasium warns of a name that is registered twice
{imports}
assert gymnasium.spec("ttray/Dam-v0").entry_point == "ttray.envs.dam:DamEnv"
assert type(gymnasium.__spec__.loader).__name__ == type(gymnasium.__loader__).__name__ == "SourceFileLoader"
importlib.reload(gymnasium)
importlib.reload(ttray)
gymnasium.spec("ttray/Dam-v0")
assert "mujoco" not in sys.modules and "ray" not in sys.modules
"""
# Loading RLlib takes longest: the process forks where it matters whether RLlib was used.
ALGORITHMS = """
import importlib, os, sys
from ray.rllib.algorithms import registry
from ray.tune.registry import get_trainable_cls
if child := os.fork():
    get_trainable_cls("PPO")
import ttray
assert get_trainable_cls("TTPOIS") is ttray.TTPOIS
assert get_trainable_cls("POIS") is registry._get_algorithm_class("POIS") is ttray.POIS
importlib.reload(registry)
found, config = registry.ALGORITHMS["TTPOIS"]()
assert found is ttray.TTPOIS and type(config) is ttray.TTPOISConfig
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "imports",
    [
        "import importlib, sys, ttray, gymnasium",
        "import importlib, sys, gymnasium, ttray",
        "import importlib, sys, ttray.envs, gymnasium",
    ],
)
def test_the_environments_are_known_once_whoever_is_imported_first(imports):
    run(ENVIRONMENTS.format(imports=imports))


def test_the_algorithms_are_known_whether_rllib_was_used_before_or_not():
    run(ALGORITHMS)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that can be imported, and finders that are taken away again."""
    (tmp_path / "some_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield "some_module"
    sys.modules.pop("some_module", None)


def test_an_action_follows_every_execution_of_a_module(module):
    seen = []
    when_imported(module, lambda found: seen.append(found.value))
    assert seen == []
    found = importlib.import_module(module)
    importlib.import_module(module)
    assert seen == [1]
    importlib.reload(found)
    assert seen == [1, 1]
    when_imported(module, lambda found: seen.append(-found.value))  # it is there already
    assert seen == [1, 1, -1]
    importlib.reload(found)
    assert sorted(seen) == [-1, -1, 1, 1, 1]


def test_who_only_looks_for_a_module_is_answered_as_ever(module, tmp_path):
    seen = []
    when_imported(module, seen.append)
    spec = importlib.util.find_spec(module)
    assert spec.origin == str(tmp_path / "some_module.py")
    assert spec.loader.get_source(module) == "value = 1\n"
    assert seen == []
    when_imported("no_such_module", seen.append)
    assert importlib.util.find_spec("no_such_module") is None


def test_threads_that_import_at_once_see_one_action(module):
    seen, barrier = [], threading.Barrier(4)
    when_imported(module, seen.append)

    def import_it():
        barrier.wait()
        importlib.import_module(module)

    threads = [threading.Thread(target=import_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 1


def test_every_public_name_is_there_and_no_other():
    assert not [name for name in ttray.__all__ if not hasattr(ttray, name)]
    assert ttray.collect.__module__ == "ttray.runs.collect"
    with pytest.raises(AttributeError, match="module 'ttray' has no attribute 'colect'"):
        ttray.colect  # noqa: B018
