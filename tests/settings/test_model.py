"""A setting is what its definition says, wherever it is asked for."""

import inspect
from dataclasses import replace

import pytest

import ttray
from ttray.runs.own_settings import ALL_SETTINGS
from ttray.runs.run import Run
from ttray.settings.training import SETTINGS, DispatchSettings, SearchSettings


@pytest.mark.parametrize("name", ALL_SETTINGS)
def test_a_default_keeps_the_rule_of_its_setting(name):
    setting = ALL_SETTINGS[name]
    assert setting.help.endswith(".")
    assert setting.rule.words
    if not setting.is_required:
        assert setting.check(setting.default) == setting.default


@pytest.mark.parametrize("name", SETTINGS)
def test_a_configuration_begins_with_the_default(name):
    setting = SETTINGS[name]
    assert getattr(ttray.TTPOISConfig(), name) == (0 if setting.is_required else setting.default)


@pytest.mark.parametrize("method", ["training", "env_runners"])
def test_methods_of_the_configuration_list_what_they_take(method):
    found = getattr(ttray.TTPOISConfig, method)
    taken = [name for name, setting in SETTINGS.items() if setting.method == method]
    assert [name for name in inspect.signature(found).parameters if name in SETTINGS] == taken
    for name in taken:
        assert f"    {name}: {SETTINGS[name].help}" in found.__doc__


def test_what_is_not_given_stays_as_it_is():
    not_provided = inspect.signature(ttray.TTPOISConfig.training).parameters["delta"].default
    config = ttray.TTPOISConfig().training(delta=0.25).training(delta=not_provided)
    assert config.delta == 0.25


def test_arguments_that_there_are_not_are_refused():
    with pytest.raises(TypeError, match="DispatchSettings: patience: unexpected keyword argument"):
        DispatchSettings(patience=3)
    with pytest.raises(TypeError, match="nowhere"):
        ttray.TTPOISConfig().training(nowhere=3)


def test_a_replaced_value_is_checked_like_any_other():
    assert replace(SearchSettings(), num_offline_iterations=7).num_offline_iterations == 7
    with pytest.raises(ValueError, match=r"^gain_tolerance must be a finite number, at least 0, found -1$"):
        replace(SearchSettings(), gain_tolerance=-1)
    with pytest.raises(ValueError, match=r"^keep must be an integer, at least 1, found 0$"):
        replace(Run.of(preset="dam"), keep=0)


def test_an_object_of_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        SearchSettings().line_search = "cubic"
