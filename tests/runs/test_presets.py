import dataclasses

import gymnasium
import pytest

import ttray.envs
from ttray.runs.presets import CONTROL_PRESETS, FAST_PRESETS, PAPER_PRESETS, PRESETS, preset
from ttray.runs.run import Run
from ttray.runs.tasks import time_limit

# The table of the specification: gammas, budgets, net, deltas, iterations, clip, min-max reward.
TABLE = {
    "corridor-sparse": ((0.999, 0.995, 0.99), (2500, 1300), (64, 32), (0.9, 0.9), 10, 100, None),
    "corridor-dense": ((0.999, 0.995, 0.99), (25000, 15000), (64, 32), (0.7, 0.7), 10, 100, None),
    "dam": ((0.999, 0.995, 0.95), (8640, 4320), (64, 32), (0.7, 0.6), 10, None, None),
    "supply-chain": (
        (0.999, 0.97, 0.95),
        (3900, 2400),
        (100, 50, 25),
        (0.005, 0.005),
        20,
        100,
        None,
    ),
    "reacher": ((0.999, 0.995, 0.95), (8000, 4000), (100, 50, 25), (0.8, 0.8), 20, None, 5),
}
HORIZONS = {
    "corridor-sparse": 100,
    "corridor-dense": 1000,
    "dam": 360,
    "supply-chain": 30,
    "reacher": 200,
}


@pytest.mark.parametrize("family", TABLE)
@pytest.mark.parametrize("column", [0, 1])
def test_presets_are_the_papers_tables(family: str, column: int) -> None:
    gammas, budgets, net, deltas, iterations, clip, min_max_reward = TABLE[family]
    found = PAPER_PRESETS[family if column == 0 else f"{family}-{budgets[1]}"]
    assert found.gammas == gammas
    assert found.budget == budgets[column]
    assert found.hidden_sizes == net
    assert found.delta == deltas[column]
    assert found.num_offline_iterations == iterations
    assert found.importance_weight_clip == clip
    assert found.min_max_reward == min_max_reward
    assert found.horizon == HORIZONS[family]


def test_there_is_one_preset_per_environment_and_budget() -> None:
    pairs = {(found.environment, found.budget) for found in PRESETS.values()}
    assert len(pairs) == len(PRESETS)
    assert len(PAPER_PRESETS) == 2 * len(TABLE)
    assert all(name == found.name for name, found in PRESETS.items())


def test_the_papers_presets_are_the_papers_method() -> None:
    for found in PAPER_PRESETS.values():
        assert (found.strategy, found.importance_weights, found.baseline) == (None, "trajectory", "none")


def test_quick_presets_come_first_and_have_what_makes_them_quick() -> None:
    assert list(PRESETS) == [*FAST_PRESETS, *CONTROL_PRESETS, *PAPER_PRESETS]
    for name, found in FAST_PRESETS.items():
        assert name.endswith("-fast")
        papers = PAPER_PRESETS.get(name.removesuffix("-fast"))
        assert (found.importance_weights, found.baseline) == ("per_decision", "per_step")
        if papers:
            assert (found.environment, found.horizon) == (papers.environment, papers.horizon)
            assert found.budget < papers.budget


BOUND_PRESETS = {**FAST_PRESETS, **PAPER_PRESETS}


@pytest.mark.parametrize("algorithm", ["TTPOIS", "POIS"])
@pytest.mark.parametrize("name", BOUND_PRESETS)
def test_every_preset_of_a_bound_can_be_run_with_every_discount_of_its_own(name: str, algorithm: str) -> None:
    for gamma in BOUND_PRESETS[name].gammas:
        run = Run.of(preset=name, algorithm=algorithm, gamma=gamma)
        run.config().validate()
        assert (run.importance_weights, run.baseline) == (
            BOUND_PRESETS[name].importance_weights,
            BOUND_PRESETS[name].baseline,
        )


@pytest.mark.parametrize("name", CONTROL_PRESETS)
def test_a_preset_of_control_is_a_task_with_what_ttpo_would_choose_but_for_what_it_says(name: str) -> None:
    found = CONTROL_PRESETS[name]
    (gamma,) = found.gammas
    run = Run.of(preset=name)
    run.config().validate()
    assert (run.algorithm, run.gamma) == ("TTPO", gamma)
    limit = time_limit(found.environment)
    assert limit is not None
    assert run.horizon == min(limit, found.budget // 2, round(4 / (1 - gamma)))
    assert {key: run.to_settings()[key] for key in found.settings} == found.settings
    by_itself = Run.of(environment=found.environment, gamma=gamma, budget=found.budget, algorithm="TTPO")
    unlike = {key for key, value in by_itself.to_settings().items() if run.to_settings()[key] != value}
    assert unlike == {"preset"}


@pytest.mark.parametrize("name", CONTROL_PRESETS)
def test_other_algorithms_take_the_task_and_their_own_defaults(name: str) -> None:
    run = Run.of(preset=name, algorithm="TTPOIS")
    run.config().validate()
    assert (run.horizon, run.delta, run.baseline) == (CONTROL_PRESETS[name].horizon, 0.7, "none")
    assert not run.settings


def test_every_preset_names_a_registered_environment() -> None:
    assert {found.environment for found in PAPER_PRESETS.values()} <= set(ttray.envs.ENVIRONMENT_IDS)
    for found in PRESETS.values():
        gymnasium.spec(found.environment)


def test_presets_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        preset("dam").budget = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        PRESETS["dam"] = preset("reacher")  # type: ignore[index]


def test_an_unknown_name_is_answered_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"no preset 'damm'; choose one of .*dam, dam-4320"):
        preset("damm")
