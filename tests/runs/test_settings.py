"""Settings as people write them, and runs made again from what they left."""

import pytest

from ttray.runs.run import Run
from ttray.runs.settings import parse_settings, read_settings, write_settings

OWN = {"hidden_sizes": [7], "importance_weight_clip": None, "gain_tolerance": 1e-3, "backup_quotas": False}


def test_values_are_numbers_words_lists_truth_or_none():
    texts = ["a=1", "b = 0.5", "c=[1, 2]", "d=binary", "preset=none", "f=false", 'g="a b"', "h=x=y"]
    assert parse_settings(texts) == {
        "a": 1, "b": 0.5, "c": [1, 2], "d": "binary", "preset": None, "f": False, "g": "a b", "h": "x=y",
    }  # fmt: skip


@pytest.mark.parametrize("texts", [["a"], ["=1"], ["a="], ["a=1", "a=2"]])
def test_what_is_no_setting_is_refused(texts):
    with pytest.raises(ValueError, match=r"a setting is written key=value|a is set twice"):
        parse_settings(texts)


def test_what_is_written_is_read_again(tmp_path):
    settings = {
        "gamma": 0.1,
        "num_learner_threads": None,
        "baseline": "none",
        "environment": 'γ "quoted"',
        "hidden_sizes": [1, 2],
        "backup_quotas": True,
        "label_selector": {"x y": "z"},
        "budget": 10**9,
    }
    write_settings(tmp_path / "run.toml", settings)
    assert read_settings(tmp_path / "run.toml") == settings


@pytest.mark.parametrize("content", [b"a = ", b"\xff", None])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "run.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"run\.toml"):
        read_settings(path)


@pytest.mark.parametrize(
    "basis", [{"preset": "dam"}, {"environment": "CartPole-v1", "horizon": 9, "budget": 90}]
)
def test_a_run_made_of_the_settings_of_another_is_the_same(tmp_path, basis):
    run = Run.of(**basis | OWN | {"seed": 3})
    assert (run.hidden_sizes, run.importance_weight_clip) == ((7,), None)
    assert (run.config().gain_tolerance, run.config().backup_quotas) == (1e-3, False)
    write_settings(tmp_path / "run.toml", run.to_settings())
    assert Run.of(**read_settings(tmp_path / "run.toml")) == run


def test_a_preset_goes_with_its_own_environment_only():
    assert Run.of(preset="dam", environment="ttray/Dam-v0") == Run.of(preset="dam")
    with pytest.raises(ValueError, match="leave one of them out"):
        Run.of(preset="dam", environment="CartPole-v1")


def test_an_unknown_setting_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'hidden_sizes'"):
        Run.of(settings={"hiden_sizes": [3]})
