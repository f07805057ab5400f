"""What users have as policies that act: through `ttray.collect`, in this process and on env runners."""

import threading

import numpy as np
import pytest
import torch

import ttray
from tests.support.environments import strategy_of
from tests.support.sb3_models import trained
from ttray.data.batch import BatchInfo, read_parquet, write_parquet
from ttray.rllib.episodes import episodes
from ttray.rollout.policy_contract import PolicyError
from ttray.runs.minari import write_minari

PLAN = strategy_of(*[0] * 9, 6, *[0] * 29, 6)


def lean(observations):
    return (observations[:, 2] > 0).astype(int)


def noisy(observations, rng):
    return (rng.normal(observations[:, 2], 0.05) > 0).astype(int)


@pytest.mark.usefixtures("local_ray")
def test_a_policy_that_cannot_travel_tells_the_way_out():
    lock = threading.Lock()

    def act(observations):
        with lock:
            return lean(observations)

    how = {"strategy": PLAN, "policy": act}
    assert ttray.collect("CartPole-v1", **how).num_rows
    with pytest.raises(PolicyError, match=r"act cannot be sent to env runners.*lock.*num_env_runners=0"):
        ttray.collect("CartPole-v1", **how, num_env_runners=1)


def test_a_batch_without_probabilities_is_written_read_and_handed_on_but_judges_no_other_policy(tmp_path):
    table = ttray.collect("CartPole-v1", strategy=PLAN, policy=lean, gamma=0.9)
    assert not {"log_prob", "dist_inputs"} & set(table.column_names)
    write_parquet(table, tmp_path / "batch.parquet")
    again = read_parquet(tmp_path / "batch.parquet")
    assert ttray.digest(again) == ttray.digest(table)
    assert BatchInfo.from_table(again).environment == "CartPole-v1"
    assert [len(each) for each in episodes(again)] == [len(each) for each in episodes(table)]
    logits = lambda obs: np.zeros((len(obs), 2), np.float32)  # noqa: E731
    with pytest.raises(ValueError, match="only acts: it does not tell how probable"):
        ttray.ope([again], policy=logits)
    other = ttray.collect("CartPole-v1", strategy=PLAN, policy=logits, gamma=0.9)
    with pytest.raises(ValueError, match="lean only acts"):
        ttray.ope([other], policy=ttray.policies.function(lean))


def test_random_numbers_of_its_own_are_the_policys_fault():
    generator = np.random.default_rng(0)

    def act(observations):
        return generator.integers(2, size=len(observations))

    with pytest.raises(RuntimeError, match=r"the policy .*act is the cause.*act\(observations, rng\)"):
        ttray.collect("CartPole-v1", strategy=PLAN, policy=act)


def test_a_likeliest_choice_is_taken_where_it_is_asked_for():
    logits = lambda obs: np.stack([np.zeros(len(obs)), obs[:, 2]], axis=1)  # noqa: E731
    table = ttray.collect("CartPole-v1", strategy=PLAN, policy=logits, deterministic=True)
    acted = ttray.collect("CartPole-v1", strategy=PLAN, policy=lean)
    assert table["action"].to_pylist() == acted["action"].to_pylist()
    with pytest.raises(ValueError, match="draws its actions itself"):
        ttray.collect("CartPole-v1", strategy=PLAN, policy=noisy, deterministic=True)


def test_a_model_is_taken_as_it_is_and_its_file_for_who_trusts_it(tmp_path):
    path = tmp_path / "model.zip"
    trained("PPO").save(path)
    of_model = ttray.collect("CartPole-v1", strategy=PLAN, policy=trained("PPO"))
    with pytest.raises(ValueError, match=r"model.zip is a model of Stable-Baselines3.*pickled.*--trust"):
        ttray.collect("CartPole-v1", strategy=PLAN, policy=path)
    of_file = ttray.collect("CartPole-v1", strategy=PLAN, policy=str(path), trust=True)
    made = ttray.collect("CartPole-v1", strategy=PLAN, policy=ttray.policies.sb3(path))
    assert ttray.digest(of_model) == ttray.digest(of_file) == ttray.digest(made)
    with pytest.raises(ValueError, match="PPO only acts"):
        ttray.ope([ttray.collect("CartPole-v1", strategy=PLAN)], policy=trained("PPO"), gamma=1.0)
    with pytest.raises(ValueError, match="there is no file"):
        ttray.collect("CartPole-v1", strategy=PLAN, policy="nowhere.zip", trust=True)


def test_a_function_may_be_named():
    named = ttray.collect("CartPole-v1", strategy=PLAN, policy=f"{__name__}:lean")
    assert ttray.digest(named) == ttray.digest(ttray.collect("CartPole-v1", strategy=PLAN, policy=lean))
    with pytest.raises(ValueError, match=r"no file and no function 'nowhere:lean'.*module:function"):
        ttray.collect("CartPole-v1", strategy=PLAN, policy="nowhere:lean")


def test_a_model_is_evaluated_as_its_own_framework_does(tmp_path):
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    model = trained("PPO")
    returns, _ = evaluate_policy(
        model,
        make_vec_env("CartPole-v1", n_envs=8, seed=0),
        n_eval_episodes=300,
        deterministic=False,
        return_episode_rewards=True,
    )
    found = ttray.evaluate(model, environment="CartPole-v1", max_budget=10_000)
    error = np.std(returns) / np.sqrt(len(returns))
    assert found.low - 3 * error < np.mean(returns) < found.high + 3 * error


class Leaning(torch.nn.Module):
    """Logits of CartPole's choices."""

    def forward(self, obs):
        return torch.stack([-5.0 * obs[:, 2], 5.0 * obs[:, 2]], dim=1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_networks_of_users_are_taken_as_they_are(tmp_path):
    scripted, logits = torch.jit.script(Leaning()), Leaning()
    scripted.save(tmp_path / "model.pt")
    torch.onnx.export(
        logits,
        (torch.zeros(1, 4),),
        str(tmp_path / "model.onnx"),
        dynamo=False,
        input_names=["obs"],
        dynamic_axes={"obs": {0: "rows"}},
    )

    def function(obs):
        return np.stack([-5.0 * obs[:, 2], 5.0 * obs[:, 2]], axis=1)

    sources = (function, logits, scripted, tmp_path / "model.onnx")
    tables = [ttray.collect("CartPole-v1", strategy=PLAN, policy=each, gamma=0.9) for each in sources]
    with pytest.raises(ValueError, match=r"TorchScript, a program that may read and write files.*--trust"):
        ttray.collect("CartPole-v1", strategy=PLAN, policy=tmp_path / "model.pt")
    how = {"policy": tmp_path / "model.pt", "trust": True, "gamma": 0.9}
    tables.append(ttray.collect("CartPole-v1", strategy=PLAN, **how))
    assert len({ttray.digest(table) for table in tables}) == 1
    on_policy = ttray.ope([tables[0]], policy=logits)["per_decision"]
    assert on_policy.effective_sample_size == pytest.approx(PLAN.num_trajectories)
    likeliest = ttray.collect("CartPole-v1", strategy=PLAN, policy=logits, deterministic=True)
    acted = ttray.collect("CartPole-v1", strategy=PLAN, policy=lean)
    assert likeliest["action"].to_pylist() == acted["action"].to_pylist()


def test_a_loaded_policy_of_ttray_is_the_run_that_it_comes_from(tmp_path):
    run = ttray.train(
        preset="supply-chain", gamma=0.9, horizon=5, budget=40, num_iterations=1, num_env_runners=0,
        directory=tmp_path / "run",
    ).directory  # fmt: skip
    plan = ttray.dcs.uniform(5, 40)
    found = [
        ttray.digest(ttray.collect("ttray/SupplyChain-v0", strategy=plan, policy=policy))
        for policy in (run, ttray.load_policy(run))
    ]
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_minari_gets_the_actions_as_they_were_sent(tmp_path, monkeypatch):
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    table = ttray.collect("Pendulum-v1", strategy=PLAN, policy=lambda obs: -3.0 * obs[:, 2:3])
    write_minari(table, "pendulum/acting-v0")
    episodes = list(minari.load_dataset("pendulum/acting-v0").iterate_episodes())
    actions = np.concatenate([each.actions for each in episodes])
    assert np.array_equal(actions, np.array(table["action"].to_pylist(), np.float32))
    assert np.abs(actions).max() > 2.0  # beyond the bounds, as the policy answered them
    assert not {"log_prob", "raw_action"} & set(episodes[0].infos or {})
