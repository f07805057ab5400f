"""Nodes that come and go while a run goes on; in a process with a Ray of its own."""

import pytest

from tests.support.programs import lines_of


@pytest.fixture(scope="module")
def found():
    """What one cluster saw of each number of env runners."""
    lines = lines_of("elastic_driver", "2,auto")
    return {line[1]: line[2:] for line in lines if line[0] == "followed"}


@pytest.mark.parametrize("num_env_runners", ["2", "auto"])
def test_training_follows_the_nodes_and_ends_with_the_same_weights(found, num_env_runners):
    num_iterations, same = found[num_env_runners]
    assert int(num_iterations) >= 9
    assert same == "True"
