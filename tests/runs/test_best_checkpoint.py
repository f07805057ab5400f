"""The best checkpoint of a run is found once its training is done, and outlives the pruning."""

import json
from types import SimpleNamespace

import pytest

import ttray
from ttray.runs.best_checkpoint import BEST, best_checkpoint
from ttray.runs.checkpoints import damage_of


def trained(directory, num_iterations=4, **settings):
    return ttray.train(
        preset="supply-chain",
        gamma=0.9,
        horizon=10,
        budget=60,
        num_iterations=num_iterations,
        num_env_runners=0,
        checkpoint_every=1,
        keep=1,
        directory=directory,
        **settings,
    )


def names_in(directory):
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def test_the_best_one_is_kept_beside_the_newest(tmp_path, monkeypatch):
    monkeypatch.setattr("ttray.runs.ranking_result.Ranking.best", "000002")  # else too seldom an old one
    found = trained(tmp_path, keep_best=True)
    assert names_in(tmp_path) == ["000002", "000004"]
    assert found.checkpoint.name == "000004"
    assert found.best.path == tmp_path / "checkpoints" / "000002"
    assert damage_of(found.best.path) is None
    assert found.best.last_iteration == 4
    assert 0 < found.best.num_env_steps < 100
    ttray.evaluate(found.best.path, max_budget=20)
    before = (tmp_path / BEST).read_bytes()
    monkeypatch.setattr("ttray.runs.best_checkpoint.rank", None)
    assert trained(tmp_path, keep_best=True).best == found.best  # it is not ranked again
    assert (tmp_path / BEST).read_bytes() == before


def test_training_is_as_ever_and_its_checkpoints_are_ranked_by_rank(tmp_path):
    kept, plain = trained(tmp_path / "kept", keep_best=True), trained(tmp_path / "plain", keep_best=False)
    assert plain.best is None
    results = [[row["discounted_return"] for row in run.rows] for run in (kept, plain)]
    assert results[0] == results[1]
    for number in (1, 2, 3):  # the earlier ones of the same training
        earlier = trained(tmp_path / f"to {number}", number).checkpoint
        earlier.rename(plain.checkpoint.with_name(earlier.name))
    ranked = ttray.rank(plain.directory, max_budget=40)
    assert ranked.best == kept.best.path.name
    assert ranked.num_env_steps == kept.best.num_env_steps
    assert (ranked.is_decided and ranked.is_guaranteed) == kept.best.is_proven


@pytest.mark.parametrize("is_guaranteed", [False, True])
def test_without_a_range_of_rewards_nothing_is_proven(tmp_path, monkeypatch, is_guaranteed):
    decided = SimpleNamespace(best="000001", is_decided=True, is_guaranteed=is_guaranteed, num_env_steps=10)
    monkeypatch.setattr("ttray.runs.best_checkpoint.rank", lambda *_, **__: decided)
    assert trained(tmp_path, 2, keep_best=True).best.is_proven == is_guaranteed


@pytest.mark.parametrize("said", ["{}", "[]", "no", json.dumps({"iteration": -1})])
def test_a_damaged_note_is_an_error_and_a_missing_checkpoint_none(tmp_path, said):
    assert best_checkpoint(tmp_path) is None
    (tmp_path / BEST).write_text(said)
    with pytest.raises(ValueError, match=r"best\.json"):
        best_checkpoint(tmp_path)
    gone = {"iteration": 3, "last_iteration": 3, "num_env_steps": 0, "is_proven": True}
    (tmp_path / BEST).write_text(json.dumps(gone))
    assert best_checkpoint(tmp_path) is None
