"""Nodes that come and go while a run goes on; in a process with a Ray of its own."""

from tests.support.programs import lines_of


def test_training_follows_the_nodes_and_ends_with_the_same_weights():
    (found,) = [line for line in lines_of("elastic_driver", "2") if line[0] == "followed"]
    _, num_env_runners, num_iterations, same = found
    assert num_env_runners == "2"
    assert int(num_iterations) >= 9
    assert same == "True"
