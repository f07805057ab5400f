"""Whatever a run writes of its settings, a run that reads it has the same ones: files, words, copies."""

import copy
import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ttray
from ttray.plans import planners
from ttray.registration import ALGORITHMS
from ttray.runs.own_settings import ALL_SETTINGS, MAY_CHANGE
from ttray.runs.presets import PRESETS
from ttray.runs.run import Run, may_be_none, unsaid_settings
from ttray.runs.settings import parse_settings, read_settings, write_settings
from ttray.settings.training import SETTINGS

COUNTS, AMOUNTS = st.integers(1, 9999), st.floats(1e-12, 1e6)
TEXTS = st.text(
    st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=8
) | st.just("none")
BASES = st.sampled_from([{"preset": name} for name in PRESETS]) | st.fixed_dictionaries(
    {"environment": TEXTS, "horizon": COUNTS, "budget": COUNTS}
)
VALUES = {
    "algorithm": st.sampled_from(sorted(ALGORITHMS)),
    "seed": st.integers(0, 2**32 - 1),
    "gamma": st.floats(0.01, 1.0),
    "num_iterations": COUNTS,
    "num_env_runners": st.sampled_from([1, 3, "auto"]),
    "label_selector": st.none() | st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3),
    "checkpoint_every": COUNTS,
    "keep": COUNTS,
    "keep_best": st.booleans(),
    "horizon": COUNTS,
    "budget": COUNTS,
    "delta": st.floats(0.001, 0.999),
    "strategy": st.sampled_from(planners.names()),
    "importance_weights": st.sampled_from(["trajectory", "per_decision"]),
    "baseline": st.sampled_from(["none", "per_step", "value"]),
    "penalty": st.sampled_from(["largest", "second_moment"]),
    "critic_hidden_sizes": st.lists(st.integers(1, 99), max_size=3),
    "critic_passes": COUNTS,
    "critic_learning_rate": st.floats(1e-12, 1.0),
    "trace_decay": st.floats(0.0, 1.0),
    "num_reused_batches": st.integers(1, 100),
    "divergence_weight": AMOUNTS,
    "entropy_weight": AMOUNTS,
    "initial_std": st.none() | AMOUNTS,
    "hidden_sizes": st.lists(st.integers(1, 99), max_size=3),
    "num_offline_iterations": COUNTS,
    "importance_weight_clip": st.none() | AMOUNTS,
    "min_max_reward": st.none() | AMOUNTS,
    "line_search": st.sampled_from(["parabola", "cubic", "binary", "geometric"]),
    "direction": st.sampled_from(["gradient", "natural"]),
    "num_fisher_products": COUNTS,
    "num_fisher_rows": COUNTS,
    "fisher_damping": AMOUNTS,
    "first_kl": AMOUNTS,
    "log_std_brake": AMOUNTS,
    "gradient_tolerance": AMOUNTS,
    "gain_tolerance": AMOUNTS,
    "max_line_search_evaluations": COUNTS,
    "num_learner_threads": st.none() | st.integers(1, 8),
    "optimise_on": st.sampled_from(["auto", "learner", "workers"]),
    "quotas_per_env_runner": st.none() | COUNTS,
    "quota_timeout_s": AMOUNTS,
    "max_quota_attempts": st.integers(1, 9),
    "env_runner_wait_s": AMOUNTS,
    "backup_quotas": st.booleans(),
    "determinism_check": st.sampled_from(["error", "warn", "off"]),
    "num_envs_per_env_runner": COUNTS,
    "num_cpus_per_env_runner": st.integers(0, 9) | st.floats(0, 9),
    "num_learners": st.integers(0, 1),
    "service": st.none() | TEXTS.filter(lambda name: name != "none"),
    "priority": st.floats(0.01, 100.0),
}
RUNS = st.builds(
    lambda base, others: Run.of(**base | others), BASES, st.fixed_dictionaries({}, optional=VALUES)
)


def test_every_setting_takes_part():
    assert set(VALUES) == ALL_SETTINGS.keys() - {"preset", "environment"}
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
