"""Whatever a run writes of its settings, a run that reads it has the same ones: files, words, copies."""

import copy
import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ttray
from ttray.registration import ALGORITHMS
from ttray.runs.own_settings import ALL_SETTINGS, MAY_CHANGE
from ttray.runs.presets import PRESETS
from ttray.runs.run import Run, may_be_none, unsaid_settings
from ttray.runs.settings import parse_settings, read_settings, write_settings
from ttray.settings.training import SETTINGS

COUNTS = st.integers(1, 9999)
TEXTS = st.text(
    st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=8
) | st.just("none")
BASES = st.sampled_from([{"preset": name} for name in PRESETS]) | st.fixed_dictionaries(
    {"environment": TEXTS, "horizon": COUNTS, "budget": COUNTS}
)
# What any setting might be; each takes part with those of them that its rule allows.
CANDIDATES = [
    None, True, False, 0, 1, 3, 99, 9999, 1e-12, 0.1 + 0.2, 1 / 3, 0.999, 12.5, 1e6,
    *("auto", "none", "a b", 'quoted "x"', "λ"), (), (7,), (64, 3), {"cpu": "a b", "none": "="},
]  # fmt: skip


def allowed(setting):
    return [*setting.rule.choices, *(value for value in CANDIDATES if keeps(setting, value))]


def keeps(setting, value):
    try:
        setting.check(value)
    except ValueError:
        return False
    return True


VALUES = {
    name: st.sampled_from(allowed(setting))
    for name, setting in ALL_SETTINGS.items()
    if name not in ("preset", "environment")
} | {"num_env_runners": st.sampled_from([1, 3, "auto"])}  # some, for labels are of theirs
RUNS = st.builds(
    lambda base, others: Run.of(**base | others), BASES, st.fixed_dictionaries({}, optional=VALUES)
)


def test_every_setting_takes_part():
    few = [name for name, setting in ALL_SETTINGS.items() if name in VALUES and len(allowed(setting)) < 2]
    assert few == []
    assert {each.name for each in dataclasses.fields(Run)} <= {*ALL_SETTINGS, "settings"}


def test_no_setting_has_none_as_a_word_and_as_nothing():
    for name in filter(may_be_none, SETTINGS):
        with pytest.raises(ValueError, match="found 'none'"):
            SETTINGS[name].check("none")


@given(RUNS)
def test_files_and_words_are_read_back_equal(tmp_path_factory, run):
    path = tmp_path_factory.getbasetemp() / "read-back.toml"
    write_settings(path, run.to_settings())
    assert Run.of(**read_settings(path, trust=True)) == run
    assert Run.of(**json.loads(json.dumps(run.to_settings()))) == run
    # A line of the file is also what `--set` takes.
    assert Run.of(**parse_settings(path.read_text(encoding="utf-8").splitlines())) == run


@given(RUNS, st.integers(0, 99))
def test_copies_keep_every_setting_but_those_that_are_replaced(run, seed):
    for same in (
        copy.copy(run),
        copy.deepcopy(run),
        pickle.loads(pickle.dumps(run)),
        dataclasses.replace(run),
    ):
        assert same == run
    other = dataclasses.replace(run, seed=seed)
    assert other.to_settings() == run.to_settings() | {"seed": seed}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_preset_is_read_back_with_every_method(tmp_path, name, algorithm):
    for weights, baseline in (
        ("trajectory", "none"),
        ("per_decision", "per_step"),
        ("trajectory", "per_step"),
    ):
        run = Run.of(preset=name, algorithm=algorithm, importance_weights=weights, baseline=baseline)
        write_settings(tmp_path / "run.toml", run.to_settings())
        again = Run.of(**read_settings(tmp_path / "run.toml"))
        assert again == run
        assert (again.config().importance_weights, again.config().baseline) == (weights, baseline)


def test_files_of_the_first_version_mean_what_was_meant(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        'preset = "none"\nalgorithm = "POIS"\ngamma = 0.9\nlabel_selector = "none"\n'
        'environment = "CartPole-v1"\nhorizon = 9\nbudget = 90\ndelta = 0.7\nbaseline = "none"\n'
        'hidden_sizes = [7]\nimportance_weight_clip = "none"\nmin_max_reward = 2.0\n'
        'num_learner_threads = "none"\n'
    )
    run = Run.of(**read_settings(path))
    assert (run.preset, run.label_selector, run.baseline) == (None, None, "none")
    assert (run.importance_weight_clip, run.min_max_reward) == (None, 2.0)
    assert run.settings == {"num_learner_threads": None}


def test_a_run_cannot_be_given_the_name_of_another_preset():
    with pytest.raises(ValueError, match="preset 'reacher' is of ttray/Reacher-v0, found environment"):
        dataclasses.replace(Run.of(preset="dam"), preset="reacher")


@pytest.mark.parametrize("said", [{"environment": "\ud800"}, {"label_selector": {"cpu": "\ud800"}}], ids=str)
def test_what_no_file_can_hold_is_refused(said):
    with pytest.raises(ValueError, match="must be a text of at most 10000 printable characters"):
        Run.of(**{"horizon": 9, "budget": 90} | said)


def test_settings_that_change_no_result_may_change_when_a_run_goes_on(tmp_path):
    small = {"preset": "supply-chain-fast", "horizon": 9, "budget": 90, "num_env_runners": 0}
    once = ttray.train(**small, num_iterations=2, directory=tmp_path / "once")
    ttray.train(**small, num_iterations=1, directory=tmp_path / "twice")
    others = {
        "quotas_per_env_runner": 3,
        "quota_timeout_s": 1e6,
        "max_quota_attempts": 9,
        "env_runner_wait_s": 1e6,
        "backup_quotas": False,
        "determinism_check": "off",
        "num_learner_threads": 3,
        "num_envs_per_env_runner": 5,
        "num_cpus_per_env_runner": 2,
        "optimise_on": "learner",
        "priority": 2.0,
    }
    elsewhere = {"num_env_runners", "label_selector", "num_learners", "service"}  # need a Ray
    of_runs = {"num_iterations", "checkpoint_every", "keep", "keep_best"}
    assert others.keys() | elsewhere | of_runs == MAY_CHANGE
    twice = ttray.train(
        **small, num_iterations=2, checkpoint_every=1, keep=2, settings=others, directory=tmp_path / "twice"
    )
    weights = [(each.checkpoint / "policy.safetensors").read_bytes() for each in (once, twice)]
    assert weights[0] == weights[1]
    # Neither does it to say what holds anyway.
    ttray.train(**small, num_iterations=2, settings=unsaid_settings(), directory=tmp_path / "twice")
    with pytest.raises(ValueError, match="holds a run with line_search='parabola', not 'cubic'"):
        ttray.train(**small, settings={"line_search": "cubic"}, directory=tmp_path / "twice")
