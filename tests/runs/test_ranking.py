"""Rankings: the same bits anywhere, rounds that go on after a kill, and what a result says."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import ttray
from tests.runs.test_to_accuracy import Coin
from tests.support.programs import ROOT
from ttray.data.batch import read_parquet
from ttray.runs import ranking
from ttray.runs.ranking_result import told
from ttray.runs.to_accuracy import EvaluationStopped


def always(obs):
    return np.tile(np.array([-9.0, 9.0], np.float32), (len(obs), 1))


def often(obs):
    return np.tile(np.array([0.0, 1.0], np.float32), (len(obs), 1))


def never(obs):
    return np.tile(np.array([9.0, -9.0], np.float32), (len(obs), 1))


class Bonus(Coin):
    """A coin of the environment's, which all policies see alike, and a little for the second action."""

    def step(self, action):
        observation, reward, *others = super().step(action)
        return observation, 0.5 * reward + 0.2 * float(action), *others


POLICIES = {"never": never, "always": always, "often": often}
SETTINGS = {"environment": Bonus, "horizon": 10, "reward_range": (0, 1)}


def ranked(policies=None, **arguments):
    return ttray.rank(POLICIES if policies is None else policies, **SETTINGS | arguments)


def test_policies_are_ranked_by_what_they_earn():
    found = ranked()
    assert found.order == ("always", "often", "never")
    assert found.best == "always"
    assert found.is_decided
    assert found.is_guaranteed
    assert found.num_env_steps == sum(each.num_env_steps for each in found.policies)
    assert [each.name for each in found.policies] == list(found.order)
    gap = found.difference("always", "never")
    assert 0.0 < gap.low < 2.0 < gap.high
    back = found.difference("never", "always")
    assert (back.low, back.high, back.better) == (-gap.high, -gap.low, "always")
    assert found.is_proven("always", better_than="often")
    assert not found.is_proven("often", better_than="always")
    with pytest.raises(ValueError, match="no two of"):
        found.difference("always", "nobody")


def test_all_policies_meet_the_same_noise(tmp_path):
    # What the coin pays is the same for twins; only the bonus differs, by exactly 0.2 a step.
    found = ranked({"never": never, "always": always}, directory=tmp_path)
    tables = [read_parquet(tmp_path / "rounds" / f"000000-{part}.parquet") for part in (0, 1)]
    rewards = [table["reward"].to_numpy() for table in tables]
    assert np.ptp(rewards[0]) > 0.0
    assert rewards[1] - rewards[0] == pytest.approx(0.2)
    assert found.pairs[0].estimate == pytest.approx(-2.0)


def test_the_best_alone_and_what_is_alike():
    best = ranked(best_only=True)
    assert best.best_only
    assert best.order[0] == "always"
    alike = ranked({"one": always, "two": always}, indifference=0.5)
    assert alike.is_decided
    assert alike.pairs[0].is_equal
    assert alike.is_proven("one", better_than="two")  # not worse by more than the indifference
    spent = ranked({"one": always, "two": always}, max_budget=800)
    assert not spent.is_decided
    assert spent.num_env_steps <= 800
    assert "(not decided)" in str(spent)


def test_what_is_not_guaranteed_says_so():
    free = ranked(reward_range=None)
    assert free.order == ("always", "often", "never")
    assert not free.is_guaranteed
    assert "asymptotic" in str(free)


def test_the_bits_are_the_same_for_any_number_of_env_runners_and_slots(local_ray):
    here = ranked(seed=3)
    assert here.num_rounds > 2
    assert ranked(seed=3, num_slots=8) == here
    for number in (1, 2):
        assert ranked(seed=3, num_env_runners=number, num_slots=16) == here
    assert ranked(seed=4) != here


def test_all_rounds_of_all_policies_share_one_service(monkeypatch):
    opened = []

    class Counted(ranking.Collector):
        def __init__(self, *arguments, **keywords):
            opened.append(self)
            super().__init__(*arguments, **keywords)

    monkeypatch.setattr(ranking, "Collector", Counted)
    assert ranked().num_rounds > 2
    assert len(opened) == 1


def test_rounds_on_disk_are_read_again_and_give_the_same_bits(tmp_path):
    found = ranked()
    assert ranked(directory=tmp_path) == found
    for path in (tmp_path / "rounds").glob("00000[2-9]-*.parquet"):
        path.unlink()
    assert ranked(directory=tmp_path) == found
    with pytest.raises(ValueError, match=r"holds an evaluation with indifference=None, not 0\.5"):
        ranked(directory=tmp_path, indifference=0.5)
    with pytest.raises(ValueError, match="holds an evaluation with policies="):
        ranked({"never": never, "always": always}, directory=tmp_path)
    with pytest.raises(ValueError, match="holds an evaluation with accuracy="):
        ttray.evaluate(never, directory=tmp_path, accuracy=1.0, **SETTINGS)


def test_the_order_in_which_policies_are_named_does_not_mix_up_their_rounds(tmp_path):
    twins = {"always": always, "never": never}

    def interrupt(found):
        raise KeyboardInterrupt

    with pytest.raises(EvaluationStopped):
        ranked(twins, directory=tmp_path, on_round=interrupt)
    turned = dict(reversed(twins.items()))
    assert ranked(turned, directory=tmp_path) == ranked(turned)


def test_an_interrupted_ranking_tells_what_it_knows_and_goes_on(tmp_path):
    def interrupt(found):
        if found.num_rounds == 2:
            raise KeyboardInterrupt

    whole = ranked()
    with pytest.raises(EvaluationStopped) as stopped:
        ranked(directory=tmp_path, on_round=interrupt)
    assert stopped.value.so_far.history == whole.history[:2]
    assert ranked(directory=tmp_path) == whole
    assert ranked(on_round=lambda found: found.num_rounds == 2).history == whole.history[:2]


def test_a_driver_that_is_killed_within_a_round_goes_on_with_the_same_bits(tmp_path):
    program = textwrap.dedent(
        """
        import os, signal, sys
        from tests.runs.test_ranking import ranked
        from ttray.runs.round_files import RoundFiles

        write = RoundFiles.write

        def die(self, number, table, part):
            if (number, part) == (2, 1):
                os.kill(os.getpid(), signal.SIGKILL)
            write(self, number, table, part)

        RoundFiles.write = die
        ranked(directory=sys.argv[1])
        """
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (tmp_path / "rounds" / "000002-0.parquet").exists()
    assert not (tmp_path / "rounds" / "000002-1.parquet").exists()
    assert ranked(directory=tmp_path) == ranked()


def test_a_result_fits_eighty_columns_and_draws_itself(tmp_path):
    long = {f"runs/of/a/long/name/{name}": policy for name, policy in POLICIES.items()}
    found = ranked(long)
    assert max(map(len, str(found).splitlines())) <= 80
    assert len(repr(found)) <= 80
    assert max(len(told(each)) for each in found.history) <= 79
    for name in ("ranking.png", "ranking.svg"):
        assert found.plot(tmp_path / name).stat().st_size > 5000
    assert json.loads(json.dumps(found.to_dict()))["best"] == found.best


def test_what_cannot_be_ranked_is_refused():
    with pytest.raises(ValueError, match="two or more policies, found always"):
        ranked({"always": always})
    with pytest.raises(ValueError, match="indifference must be"):
        ranked(indifference=-1.0)
    with pytest.raises(ValueError, match="at least the horizon"):
        ranked(max_budget=5)
    with pytest.raises(ValueError, match=r"the reward 0\.7 of trajectory"):
        ranked(reward_range=(0, 0.6))
