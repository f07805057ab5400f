"""Algorithms over seeds: what is finished is not trained again, and no more than it takes to know."""

import csv

import pytest
from scipy import stats

from tests.support.damages import seal
from ttray.runs import comparison
from ttray.runs.comparison import compare, final_means, runs_to_compare
from ttray.runs.training import train_run


def small_runs(num_seeds, num_iterations=2):
    return runs_to_compare(
        range(num_seeds),
        environment="ttray/CorridorSparse-v0",
        horizon=5,
        budget=20,
        num_iterations=num_iterations,
        num_env_runners=0,
    )


def test_only_what_is_missing_is_trained(tmp_path):
    before = compare(small_runs(1), tmp_path).curves
    for checkpoints in tmp_path.glob("*/checkpoints"):  # no training can go on from these
        seal(checkpoints.parent, lambda each: (each / "algorithm_state.pkl").write_bytes(b"none"))
    (tmp_path / "POIS-0" / "curve.png").unlink()
    after = compare(small_runs(2), tmp_path).curves
    for algorithm, (curve,) in before.items():
        assert after[algorithm][0] == curve
        assert len(after[algorithm]) == 2
    assert (tmp_path / "POIS-0" / "curve.png").exists()
    with open(tmp_path / "curves.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["algorithm"], row["seed"]) for row in rows[::2]] == [
        ("TTPOIS", "0"), ("TTPOIS", "1"), ("POIS", "0"), ("POIS", "1")
    ]  # fmt: skip
    shorter = compare(small_runs(1, num_iterations=1), tmp_path).curves
    assert shorter["POIS"][0] == before["POIS"][0][:1]
    with pytest.raises(ValueError, match="is no state of a run"):
        compare(small_runs(1, num_iterations=3), tmp_path)  # the check above would have seen it


def test_other_runs_in_the_directory_are_refused_before_any_is_trained(tmp_path):
    run = small_runs(1)[1]
    train_run(run, tmp_path / "POIS-0")
    others = runs_to_compare([0], preset="dam", num_env_runners=0)
    with pytest.raises(ValueError, match="POIS-0 holds a run with"):
        compare(others, tmp_path)
    assert not (tmp_path / "TTPOIS-0").exists()


def test_training_ends_when_the_order_is_proven(tmp_path, monkeypatch):
    trained = []

    def pretend(run, directory):
        trained.append((run.algorithm, run.seed))
        level = float(run.algorithm == "TTPOIS")
        return [{"num_env_steps": 1, "discounted_return": level, "episode_return_mean": level}] * 2

    monkeypatch.setattr(comparison, "train_run", pretend)
    found = compare(small_runs(9), tmp_path)
    assert found.ranking.order == ("TTPOIS", "POIS")
    assert found.ranking.is_decided
    assert found.ranking.num_seeds == 6
    assert trained == [(name, seed) for seed in range(6) for name in ("TTPOIS", "POIS")]


def test_final_returns_have_students_and_welchs_intervals():
    finals = {"TTPOIS": [1.0, 2.0, 4.0], "POIS": [0.0, 0.5, 0.25]}
    curves = {
        name: [[{"discounted_return": -99.0}, *[{"discounted_return": value}] * 5] for value in values]
        for name, values in finals.items()
    }
    found = final_means(curves)
    for name, values in finals.items():
        low, high = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
        assert found[name].mean == pytest.approx(sum(values) / 3)
        assert found[name].half_width == pytest.approx((high - low) / 2)
    welch = stats.ttest_ind(*finals.values(), equal_var=False).confidence_interval()
    assert found["difference"].mean == pytest.approx(sum(welch) / 2)
    assert found["difference"].half_width == pytest.approx((welch.high - welch.low) / 2)
    alone = final_means({name: of_seeds[:1] for name, of_seeds in curves.items()})
    assert alone["difference"].half_width is None
    assert str(alone["difference"]) == "1.000"
