"""Nodes that come and go while a run goes on; in a process with a Ray of its own."""

import pytest

from tests.support.programs import lines_of


@pytest.fixture(scope="module")
def found():
    """What the program said in the turn of each number of env runners, in one cluster."""
    turns, turn = {}, {}
    for first, *rest in lines_of("elastic_driver", "2,auto"):
        if first == "turn":
            turn = turns.setdefault(rest[0], {})
        turn[first] = rest
    return turns


@pytest.mark.parametrize("num_env_runners", ["2", "auto"])
def test_training_follows_the_nodes_and_ends_with_the_same_weights(found, num_env_runners):
    assert int(found[num_env_runners]["iterations"][0]) >= 9
    assert found[num_env_runners]["same"] == ["True"]
