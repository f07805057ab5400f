"""Nodes that leave and join: during a training, a collection, a search, and with rows that nobody fetched."""

import pytest

from tests.support.programs import lines_of


@pytest.fixture(scope="module")
def lines():
    """What was printed by one cluster, for all that happens to its nodes: it takes longest to start."""
    return lines_of("lost_nodes_driver")


def test_training_follows_the_nodes_and_ends_with_the_same_weights(lines):
    (found,) = [line for line in lines if line[0] == "followed"]
    _, num_env_runners, num_iterations, same = found
    assert num_env_runners == "2"
    assert int(num_iterations) >= 9
    assert same == "True"


def test_a_node_may_leave_and_another_join_during_a_collection(lines):
    found = {first: rest for first, *rest in lines if first in ("moved", "again", "digests")}
    # Two nodes before, two after, one of them new: the actor moved to the node that joined.
    assert found["moved"] == ["2", "2", "1"]
    assert int(found["again"][0]) >= 1
    table, undisturbed = found["digests"]
    assert table == undisturbed


def test_rows_that_are_lost_with_their_node_are_made_again_by_whoever_asks(lines):
    (lost,) = [line[1:] for line in lines if line[0] == "lost"]
    assert min(map(int, lost)) >= 1
    assert ["same", "here", "True"] in lines
    assert ["same", "elsewhere", "True"] in lines


def test_a_node_may_be_lost_while_workers_compute_the_bound(lines):
    assert ["same", "bound", "True"] in lines
