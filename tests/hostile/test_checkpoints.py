"""Training goes on in a stranger's directory with their numbers, and runs nothing of theirs."""

import pickle
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import ttray
from tests.support.damages import seal
from ttray.rllib.state_files import state_of
from ttray.runs.checkpoints import newest_checkpoint

SMALL = {"preset": "supply-chain-fast", "horizon": 5, "budget": 50, "num_env_runners": 0}
SETTINGS = {"hidden_sizes": [4]}
LEARNER = Path("learner_group/learner")
MODULE = LEARNER / "rl_module/default_policy/module_state.pkl"
STATE = Path("algorithm_state.pkl")


class Evil:
    """What opens a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


def go_on(directory, num_iterations=2):
    return ttray.train(**SMALL, settings=SETTINGS, num_iterations=num_iterations, directory=directory)


def weights(directory):
    return (newest_checkpoint(directory) / "policy.safetensors").read_bytes()


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return go_on(tmp_path_factory.mktemp("begun") / "run", num_iterations=1).directory


@pytest.fixture(scope="module")
def undisturbed(begun, tmp_path_factory):
    return weights(go_on(tmp_path_factory.mktemp("undisturbed"), num_iterations=2).directory)


@pytest.fixture
def stranger(begun, tmp_path):
    return Path(shutil.copytree(begun, tmp_path / "run"))


def test_a_pickle_is_executed_by_no_file_that_training_goes_on_from(stranger, undisturbed, tmp_path):
    marker = tmp_path / "marker"
    evil = pickle.dumps(Evil(marker))
    pickle.loads(evil).close()
    marker.unlink()  # so it would have worked
    read = {STATE, LEARNER / "state.pkl", MODULE}

    def poison_others(checkpoint):
        for path in checkpoint.rglob("*.pkl"):
            if path.relative_to(checkpoint) not in read:
                path.write_bytes(evil)
        # What RLlib would prefer, and a module that it would build.
        (checkpoint / STATE.with_suffix(".msgpack")).write_bytes(evil)
        added = checkpoint / LEARNER / "rl_module" / "added"
        added.mkdir()
        (added / "class_and_ctor_args.pkl").write_bytes(evil)

    copy = Path(shutil.copytree(stranger, tmp_path / "copy"))
    seal(copy, poison_others)
    assert weights(go_on(copy).directory) == undisturbed
    for name in read:
        copy = Path(shutil.copytree(stranger, tmp_path / name.stem / "run"))

        def poison(checkpoint, name=name):
            (checkpoint / name).write_bytes(evil)

        seal(copy, poison)
        with pytest.raises(ValueError, match=r"is no state of a run .* it would run "):
            go_on(copy)
    assert not marker.exists()


class Pickled:
    """What is written as a call of something that is known."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


OBJECTS = (3, "|", None, None, None, -1, -1, 0)  # of a type of objects that claims to hold none
FRAME = b"\x80\x05\x95" + (2**62).to_bytes(8, "little")
MEMO = b"\x80\x04}r" + (2**32 - 1).to_bytes(4, "little") + b"."
TEXT = b"\x80\x04\x8d" + (2**62).to_bytes(8, "little")
STATES = {
    "an array of objects": pickle.dumps({"x": Pickled(np.dtype, ("O", False, True), OBJECTS)}),
    "numbers in another order": pickle.dumps({"x": np.zeros(3, ">f8")}, protocol=5),
    "a shape without its numbers": pickle.dumps(
        {"x": Pickled(np._core.numeric._frombuffer, (b"", np.dtype("f8"), (10**12,), "C"))}
    ),
    "a text": pickle.dumps("state"),
    "a long frame": FRAME,
    "a long text": TEXT,
    "nothing": b"",
    "a reference to itself": b"\x80\x04]q\x00h\x00a.",
    "an attribute of a name": pickle.dumps({"x": Pickled(getattr, (np.dtype, "mro"))}),
}


@pytest.mark.parametrize("state", STATES)
def test_a_state_that_is_none_is_refused_in_a_line(stranger, state):
    path = newest_checkpoint(stranger) / STATE
    path.write_bytes(STATES[state])
    with pytest.raises(ValueError, match=r"algorithm_state\.pkl is no state of a run") as raised:
        state_of(path.parent)
    assert len(str(raised.value).splitlines()) == 1


def test_a_file_does_not_choose_how_much_memory_is_used(stranger):
    path = newest_checkpoint(stranger) / STATE
    path.write_bytes(MEMO)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="it lacks one of"):  # for it is an empty dictionary
            state_of(path.parent)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ttray", {}),
        ("ttray", None),
        ("ttray", {"run_seed": 0, "num_batches": 1, "experience": {}}),
        ("ttray", {"run_seed": 0, "num_batches": 1, "experience": [1], "forecast": {}}),
    ],
    ids=str,
)
def test_a_state_of_something_else_is_refused_in_a_line(stranger, key, value):
    def change(checkpoint):
        found = pickle.loads((checkpoint / STATE).read_bytes())
        (checkpoint / STATE).write_bytes(pickle.dumps(found | {key: value}))

    seal(stranger, change)
    with pytest.raises(ValueError, match=r"holds no state of (this|a) run") as raised:
        go_on(stranger)
    assert len(str(raised.value).splitlines()) == 1


def test_weights_of_another_network_are_refused_in_a_line(stranger):
    def change(checkpoint):
        found = pickle.loads((checkpoint / MODULE).read_bytes())
        widened = {name: np.ones([9, *value.shape], value.dtype) for name, value in found.items()}
        (checkpoint / MODULE).write_bytes(pickle.dumps(widened, protocol=5))

    seal(stranger, change)
    with pytest.raises(ValueError, match=r"holds no state of this run"):
        go_on(stranger)


def test_what_is_read_is_what_was_saved(stranger):
    algorithm = ttray.TTPOIS.from_checkpoint(newest_checkpoint(stranger))
    expected = algorithm.get_state()
    algorithm.stop()
    again = go_on(stranger, num_iterations=1).run.config().build_algo()
    again.set_state(state_of(newest_checkpoint(stranger)))
    found = again.get_state()
    again.stop()
    for part in ("ttray", "learner_group", "metrics_logger", "training_iteration"):
        np.testing.assert_equal(found[part], expected[part])
