"""Evaluations in rounds: they stop when they know, the same bits anywhere, and go on after a kill."""

import io
import json
import math
import os
import signal
import subprocess
import sys
import textwrap

import gymnasium
import numpy as np
import pytest

import ttray
from tests.support.programs import ROOT
from ttray.envs.evaluation import expected_return
from ttray.estimators.sequential import SequentialInterval
from ttray.runs import to_accuracy
from ttray.runs.directories import locked
from ttray.runs.return_interval import decimals
from ttray.runs.rounds_line import RoundsLine, told
from ttray.runs.to_accuracy import EvaluationStopped
from ttray.service.progress import Progress
from ttray.settings.accuracy import Accuracy
from ttray.settings.reward_ranges import known_range


def balances(obs):
    """Logits that push the cart under the pole, most of the time."""
    pushes = (obs[:, 2] + obs[:, 3]) * 20.0
    return np.stack([np.zeros_like(pushes), pushes], axis=1).astype(np.float32)


class Coin(gymnasium.Env):
    """Each step pays 1 for the right guess of a coin; ten steps."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    spec = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(self.np_random.random() < 0.25), False, False, {}


def guesses(obs):
    return np.zeros((len(obs), 2), np.float32)


def test_an_evaluation_stops_when_it_is_as_accurate_as_asked():
    found = ttray.evaluate(balances, environment="CartPole-v1", accuracy=40, reward_range=(0, 1))
    assert found.is_accurate
    assert found.half_width <= 40 == found.accuracy
    assert (found.gamma, found.horizon) == (1.0, 500)  # undiscounted, up to the time limit
    assert found.is_guaranteed
    assert found.guarantee == "guaranteed, if rewards are within 0 to 1, as given"
    assert len(found.history) == found.num_rounds > 2
    assert [each.num_rounds for each in found.history] == list(range(1, found.num_rounds + 1))
    for before, after in zip(found.history, found.history[1:], strict=False):
        assert before.low <= after.low <= after.high <= before.high
        assert before.num_env_steps < after.num_env_steps
    assert found.num_env_steps == found.history[-1].num_env_steps < found.num_planned_steps
    assert found.undiscounted_mean == found.discounted_mean
    assert found.low < found.undiscounted_mean < found.high


def test_who_is_told_of_rounds_may_have_seen_enough():
    seen = []
    found = ttray.evaluate(
        guesses,
        environment=Coin,
        horizon=10,
        accuracy=0.01,
        reward_range=(0, 1),
        on_round=lambda interval: seen.append(interval) or len(seen) == 2,
    )
    assert found.num_rounds == 2
    assert found.history == tuple(seen)
    assert not found.is_accurate


def test_success_rates_are_told_within_their_interval():
    found = ttray.evaluate(guesses, environment=Coin, horizon=1, accuracy=0.03, reward_range=(0, 1))
    assert found.is_accurate
    assert found.low < 0.25 < found.high
    assert found.num_env_steps < 5000


@pytest.mark.parametrize("gamma", [1.0, 0.97])
def test_a_return_that_is_known_in_closed_form_is_in_the_interval(gamma):
    known = expected_return([0.5, 0.5], 100, gamma)
    for seed in range(3):
        found = ttray.evaluate(
            guesses, environment="ttray/Evaluation-v0", horizon=100, gamma=gamma, accuracy="10%", seed=seed
        )
        assert found.is_guaranteed  # the environment declares its range
        assert found.low < known < found.high


def test_a_share_of_the_return_is_an_accuracy_too():
    found = ttray.evaluate(guesses, environment=Coin, horizon=10, accuracy="10%", reward_range=(0, 1))
    assert found.half_width <= found.accuracy == pytest.approx(0.1 * found.estimate)
    assert found.low < 2.5 < found.high
    free = ttray.evaluate(guesses, environment=Coin, horizon=10, accuracy="10%")
    assert free.half_width <= free.accuracy == pytest.approx(0.1 * free.estimate)
    assert free.low < 2.5 < free.high


@pytest.mark.parametrize("wanted", ["a lot", "0%", "100%", "-1", 0, -0.5, math.nan, "nan%", True])
def test_what_is_no_accuracy_is_refused(wanted):
    with pytest.raises(ValueError, match="accuracy must be"):
        Accuracy.of(wanted)


def test_an_accuracy_may_be_a_text():
    assert Accuracy.of("0.5") == Accuracy.of(0.5) == Accuracy(0.5)
    assert Accuracy.of(" 5% ") == Accuracy(0.05, is_relative=True)
    assert (str(Accuracy.of("5%")), str(Accuracy.of(0.25))) == ("5%", "0.25")


def test_a_spent_budget_says_that_the_interval_is_wider_than_asked():
    found = ttray.evaluate(
        guesses, environment=Coin, horizon=10, accuracy=0.01, reward_range=(0, 1), max_budget=2000
    )
    assert not found.is_accurate
    assert 1500 < found.num_env_steps < 2500
    assert found.history[-1].num_expected_steps > 10_000
    assert "wider than asked: ±" in str(found)
    assert "steps more would do" in str(found)
    alone = ttray.evaluate(guesses, environment=Coin, horizon=10, reward_range=(0, 1), max_budget=2000)
    assert alone.accuracy is None
    assert alone.is_accurate
    assert "wider" not in str(alone)
    assert alone.low < 2.5 < alone.high


def test_guaranteed_is_said_only_where_a_range_is_known():
    class Declared(Coin):
        metadata = {"reward_range": (0.0, 1.0)}  # noqa: RUF012

    arguments = {"horizon": 10, "accuracy": 0.5}
    unknown = ttray.evaluate(guesses, environment=Coin, **arguments)
    assert not unknown.is_guaranteed
    assert "asymptotic" in unknown.guarantee
    assert "guaranteed" not in str(unknown)
    declared = ttray.evaluate(guesses, environment=Declared, **arguments)
    assert declared.is_guaranteed
    assert "as the environment says" in str(declared)
    given = ttray.evaluate(guesses, environment=Declared, reward_range=(0, 2), **arguments)
    assert "within 0 to 2, as given" in str(given)


def test_a_reward_outside_its_range_is_named_and_nothing_is_claimed():
    with pytest.raises(ValueError, match=r"the reward 1 of trajectory \d+, step \d+, is outside"):
        ttray.evaluate(guesses, environment=Coin, horizon=10, accuracy=0.5, reward_range=(0, 0.5))


def test_ranges_have_the_zero_of_ended_episodes_in_them():
    assert known_range((1, 2)).pair == (0.0, 2.0)
    assert known_range(None, (-3.0, -1.0)).pair == (-3.0, 0.0)
    assert known_range(4.0).pair == (-4.0, 4.0)  # where it lies is not known, but that 0 is in it
    assert known_range(4.0).width == 4.0
    assert known_range(None) is None
    assert known_range(None, (0.0, 0.0)) is None
    for wrong in (
        (2, 1),
        (0, 0),
        (0, math.inf),
        (0, math.nan),
        (1,),
        (1, 2, 3),
        ("a", "b"),
        (True, 2),
        0,
        "1",
    ):
        with pytest.raises(ValueError, match="reward_range must be"):
            known_range(wrong)


def test_what_cannot_go_together_is_refused_with_the_way_out():
    def refused(match, **arguments):
        with pytest.raises(ValueError, match=match):
            ttray.evaluate(guesses, **arguments)

    refused("pass environment", accuracy=1.0)
    refused("Coin has no time limit.* pass horizon", environment=Coin, accuracy=1.0)
    refused("pass accuracy .* or budget", environment=Coin, horizon=10)
    for name, value in (("budget", 100), ("strategy", "uniform"), ("real_steps", True)):
        refused(f"{name} .* leave it out", environment=Coin, horizon=10, accuracy=1.0, **{name: value})
    refused("directory keeps", environment=Coin, horizon=10, budget=100, directory="x")
    refused("at least the horizon", environment=Coin, horizon=10, accuracy=1.0, max_budget=5)


def test_a_deterministic_policy_takes_its_likeliest_action():
    def leans(obs):
        return np.tile(np.array([0.0, 0.5], np.float32), (len(obs), 1))

    class Echo(Coin):
        def step(self, action):
            return np.zeros(1, np.float32), float(action), False, False, {}

    arguments = {"environment": Echo, "horizon": 4, "reward_range": (0, 1), "accuracy": 0.5}
    assert ttray.evaluate(leans, deterministic=True, **arguments).estimate == pytest.approx(4.0, abs=1e-4)
    assert ttray.evaluate(leans, **arguments).estimate < 3.5
    assert ttray.evaluate(leans, deterministic=True, environment=Echo, horizon=4, budget=40).estimate == 4.0


def test_the_bits_are_the_same_for_any_number_of_env_runners_and_slots(local_ray):
    arguments = {"environment": "CartPole-v1", "accuracy": 60, "reward_range": (0, 1), "seed": 3}
    here = ttray.evaluate(balances, **arguments)
    assert here.num_rounds > 2
    assert ttray.evaluate(balances, num_slots=8, **arguments) == here
    assert ttray.evaluate(balances, num_env_runners=2, num_slots=16, **arguments) == here


def test_all_rounds_share_one_service(monkeypatch):
    opened, closed = [], []

    class Counted(to_accuracy.Collector):
        def __init__(self, *arguments, **keywords):
            opened.append(self)
            super().__init__(*arguments, **keywords)

        def __exit__(self, *problem):
            closed.append(self)
            super().__exit__(*problem)

    monkeypatch.setattr("ttray.runs.evaluation.Collector", Counted)
    found = ttray.evaluate(guesses, environment=Coin, horizon=10, accuracy=0.3, reward_range=(0, 1))
    assert found.num_rounds > 2
    assert len(opened) == len(closed) == 1


# --- rounds on disk --------------------------------------------------------------------------------------

KEPT = {"environment": Coin, "horizon": 10, "accuracy": 0.2, "reward_range": (0, 1)}


def test_rounds_on_disk_are_read_again_and_give_the_same_bits(tmp_path):
    found = ttray.evaluate(guesses, **KEPT)
    assert ttray.evaluate(guesses, directory=tmp_path / "kept", **KEPT) == found
    files = sorted(path.name for path in (tmp_path / "kept" / "rounds").iterdir())
    assert files == [f"{number:06d}.parquet" for number in range(found.num_rounds)]
    # Only the first round is collected again, to see that it is the same policy.
    for later in range(2, found.num_rounds):
        (tmp_path / "kept" / "rounds" / f"{later:06d}.parquet").unlink()
    assert ttray.evaluate(guesses, directory=tmp_path / "kept", **KEPT) == found
    told_of = []
    ttray.evaluate(guesses, directory=tmp_path / "kept", on_progress=told_of.append, **KEPT)
    assert max(each.num_env_steps for each in told_of) < 100


def test_an_interrupted_evaluation_tells_what_it_knows_and_goes_on(tmp_path):
    def interrupt(interval):
        if interval.num_rounds == 2:
            raise KeyboardInterrupt

    whole = ttray.evaluate(guesses, **KEPT)
    with pytest.raises(EvaluationStopped) as stopped:
        ttray.evaluate(guesses, directory=tmp_path, on_round=interrupt, **KEPT)
    assert stopped.value.directory == tmp_path
    assert stopped.value.so_far.history == whole.history[:2]
    assert not stopped.value.so_far.is_accurate
    assert ttray.evaluate(guesses, directory=tmp_path, **KEPT) == whole


def test_a_driver_that_is_killed_in_its_third_round_goes_on_with_the_same_bits(tmp_path):
    program = textwrap.dedent(
        """
        import os, signal, sys
        import ttray
        from tests.runs.test_to_accuracy import KEPT, guesses
        from ttray.service.progress import Progress

        rounds = []

        def die(progress):
            if len(rounds) == 2:
                print("killed in round 3", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        ttray.evaluate(guesses, directory=sys.argv[1], on_round=rounds.append, on_progress=die, **KEPT)
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
    assert killed.stdout == "killed in round 3\n"
    assert len(list((tmp_path / "rounds").glob("*.parquet"))) == 2
    (tmp_path / "rounds" / "000002.parquet.unfinished").write_bytes(b"half a round")
    assert ttray.evaluate(guesses, directory=tmp_path, **KEPT) == ttray.evaluate(guesses, **KEPT)
    assert not list((tmp_path / "rounds").glob("*.unfinished"))


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"accuracy": 0.1}, "accuracy='0.2', not '0.1'"),
        ({"delta": 0.1}, "delta=0.05, not 0.1"),
        ({"reward_range": (0, 2)}, r"reward_range=\[0.0, 1.0\], not \[0.0, 2.0\]"),
        ({"horizon": 9}, "horizon=10, not 9"),
        ({"gamma": 0.9}, "gamma=1.0, not 0.9"),
        ({"seed": 1}, "seed=0, not 1"),
        ({"max_budget": 9000}, "max_budget=None, not 9000"),
        ({"deterministic": True}, "deterministic=False, not True"),
    ],
)
def test_other_settings_in_the_same_directory_are_refused(tmp_path, changed, match):
    with pytest.raises(EvaluationStopped):
        ttray.evaluate(guesses, directory=tmp_path, on_round=_stop, **KEPT)
    with pytest.raises(ValueError, match=f"holds an evaluation with {match}; pass the same settings"):
        ttray.evaluate(guesses, directory=tmp_path, **KEPT | changed)


def _stop(_):
    raise KeyboardInterrupt


def test_another_policy_of_the_same_name_is_refused(tmp_path):
    def of_mind(logit):
        def guesses(obs):
            return np.tile(np.array([0.0, logit], np.float32), (len(obs), 1))

        return guesses

    with pytest.raises(EvaluationStopped):
        ttray.evaluate(of_mind(1.0), directory=tmp_path, on_round=_stop, **KEPT)
    with pytest.raises(ValueError, match=r"the first round has other bits .* choose another directory"):
        ttray.evaluate(of_mind(-1.0), directory=tmp_path, **KEPT)


def test_two_processes_do_not_write_into_one_directory(tmp_path):
    with locked(tmp_path), pytest.raises(ValueError, match=f"process {os.getpid()} is writing into"):
        ttray.evaluate(guesses, directory=tmp_path, **KEPT)


# --- what is told ----------------------------------------------------------------------------------------


def test_a_result_fits_eighty_columns_and_draws_itself(tmp_path):
    found = ttray.evaluate(balances, environment="CartPole-v1", gamma=0.99, accuracy=8, reward_range=(0, 1))
    assert max(map(len, str(found).splitlines())) <= 80
    assert len(repr(found)) <= 80
    assert "95% interval" in str(found)
    for name in ("narrowing.png", "narrowing.svg"):
        assert found.plot(tmp_path / name).stat().st_size > 5000
    for each in found.history:
        assert len(told(each)) <= 79
    assert json.loads(json.dumps(found.to_dict()))["history"][0]["num_rounds"] == 1


def test_a_terminal_has_one_line_that_narrows():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    line = RoundsLine(terminal)
    line.on_progress(Progress(5, 10, 50, 0, 0.1))
    line.on_round(SequentialInterval(2.5, 2.25, 2.75, 1, 400, 120_345, is_guaranteed=True))
    line.end()
    shown = [text for text in terminal.getvalue().split("\r\x1b[K") if text]
    assert shown[0] == "round 1: 50%"
    assert shown[-1] == "2.250 to 2.750 (±0.25), 400 steps, about 120,000 to go\n"
    assert terminal.getvalue().count("\n") == 1
    silent = RoundsLine(io.StringIO())
    silent.end()


def test_an_evaluation_that_knows_nothing_yet_can_be_drawn(tmp_path):
    found = ttray.evaluate(guesses, environment=Coin, horizon=10, max_budget=40)
    assert math.isinf(found.half_width)
    assert found.plot(tmp_path / "nothing.png").exists()
    assert "-inf" not in str(found)
    assert "not known yet" in str(found)


def test_a_line_says_it_where_nothing_is_known_yet():
    interval = SequentialInterval(12.5, -math.inf, math.inf, 1, 400, 120_345, is_guaranteed=False)
    assert told(interval) == "about 12.5, no interval yet, 400 steps, about 120,000 to go"


def test_digits_follow_the_half_width():
    assert [decimals(each) for each in (250.0, 2.5, 0.25, 0.0025, 0.0, math.inf)] == [0, 2, 3, 5, 4, 4]
