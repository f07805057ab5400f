"""Threads that all start Ray, and processes forked from one that has it: all collect, or hear why not."""

import os

import pytest

from tests.support.programs import lines_of


@pytest.fixture(scope="module")
def said():
    """What the program printed, by the first word of each line."""
    found = {}
    for word, *rest in lines_of("threads_and_forks"):
        found.setdefault(word, []).append(" ".join(rest))
    return found


def test_threads_whose_first_collections_start_together_share_one_ray(said):
    assert len(said["thread"]) == 4
    assert len(set(said["thread"])) == 1


def test_a_fork_of_a_process_with_ray_collects_without_it(said):
    assert said["fork"] == said["thread"][:1]
    assert said["pool"] == said["thread"][:2]


def test_a_fork_that_wants_env_runners_is_told_the_way_out(said):
    (refusal,) = said["refused"]
    assert 'get_context("spawn")' in refusal
    assert "num_env_runners=0" in refusal


def test_a_fork_ends_with_its_own_exit_code_and_leaves_its_parents_ray_alone(said):
    (status,) = said["status"]
    assert os.waitstatus_to_exitcode(int(status)) == 3
    assert said["parent"] == said["thread"][:2]
