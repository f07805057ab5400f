"""Finding an environment by its id: what is missing is said in one line that names it."""

import importlib
import sys

import gymnasium
import pytest

from ttray.rollout.environment import EnvironmentMaker


def needs_what_is_not_there(**_):
    importlib.import_module("no_such_package")


def needs_an_extra(**_):
    raise gymnasium.error.DependencyNotInstalled(
        'pygame is not installed, run `pip install "gymnasium[classic-control]"`'
    )


@pytest.mark.parametrize(
    ("make", "package"), [(needs_what_is_not_there, "no_such_package"), (needs_an_extra, "pygame")]
)
@pytest.mark.parametrize("registered", [True, False])
def test_a_package_that_an_environment_needs_is_named(monkeypatch, make, package, registered):
    source = make
    if registered:
        monkeypatch.setitem(
            gymnasium.registry, "Needy-v0", gymnasium.envs.registration.EnvSpec("Needy-v0", entry_point=make)
        )
        source = "Needy-v0"
    with pytest.raises(ValueError, match=f"needs a package that is not installed here .*{package}") as raised:
        EnvironmentMaker.of(source).facts()
    assert len(str(raised.value).splitlines()) == 1


def test_a_package_for_which_there_is_an_extra_is_named_with_it(monkeypatch):
    assert EnvironmentMaker.of("LunarLander-v3").facts().obs_size == 8  # with the extra
    monkeypatch.setitem(sys.modules, "Box2D", None)  # as if it were not installed
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(
        ValueError, match=r"LunarLander.* needs .*; install it with pip install 'ttray\[box2d\]'"
    ):
        EnvironmentMaker.of("LunarLander-v3").facts()


@pytest.mark.parametrize("entry", ["entry_point", "vector_entry_point"])
def test_a_package_that_the_module_of_an_entry_needs_is_named(monkeypatch, tmp_path, entry):
    (tmp_path / "needy.py").write_text("import no_such_package\nNeedy = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = gymnasium.envs.registration.EnvSpec("Needy-v0", **{entry: "needy:Needy"})
    monkeypatch.setitem(gymnasium.registry, "Needy-v0", spec)
    maker = EnvironmentMaker.of("Needy-v0")
    make = {"entry_point": maker.make_single, "vector_entry_point": lambda: maker.make_batch(2)}[entry]
    with pytest.raises(ValueError, match=r"Needy-v0 needs a package .*'no_such_package'"):
        make()


def test_a_package_that_the_named_module_needs_is_told_from_the_module_itself(monkeypatch, tmp_path):
    (tmp_path / "needy.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(ValueError, match=r"needy:X-v0 needs a package .*'no_such_package'"):
        EnvironmentMaker.of("needy:X-v0")


@pytest.mark.parametrize("module", ["nobodys", "nobodys.inner", ".relative", "..", " ", "a/b", "needy\0"])
def test_a_module_that_is_not_there_is_named(module):
    with pytest.raises(ValueError, match="no module ") as raised:
        EnvironmentMaker.of(f"{module}:X-v0")
    assert repr(module) in str(raised.value)
