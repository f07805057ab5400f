import sys
from pathlib import Path

import hypothesis
import pytest
import torch

TESTS = Path(__file__).parent
# Whose tests wait for processes, the longest first; all others only compute.
WAITING = (
    "cli",
    "service",
    "paper",
    "rllib",
    "runs",
    "test_examples.py",
    "deployment",
    "benchmarks",
    "test_registration.py",
)

# The tests' tensors are tiny: threads would only wait for each other.
torch.set_num_threads(1)

# No test judges a time: on a busy machine an example takes a second once in a while.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


def pytest_addoption(parser):
    parser.addoption(
        "--without-ray",
        action="store_true",
        help="as on a machine without Ray: whatever imports it fails, and so does the run",
    )


def pytest_configure(config):
    if config.getoption("--without-ray"):
        assert "ray" not in sys.modules, "Ray was imported before any test"
        sys.modules["ray"] = None


def pytest_runtest_teardown(item):
    if item.config.getoption("--without-ray"):
        assert sys.modules["ray"] is None, "this test, or what it calls, lifted the block and imported Ray"


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Divides the tests among the processes of `--dist loadgroup`.

    A file stays together, because its tests share fixtures, and all tests of the running service go to one
    process, which alone starts the actors. Long files come first, so that the short ones fill up whichever
    process is free at the end.
    """

    def rank(item):
        place = item.path.relative_to(TESTS).parts[0]
        return WAITING.index(place) if place in WAITING else len(WAITING)

    items.sort(key=rank)  # stable: within a folder the order stays
    for item in items:
        group = "service" if "running_service" in item.fixturenames else item.path.relative_to(TESTS)
        item.add_marker(pytest.mark.xdist_group(str(group)))


@pytest.fixture(scope="session")
def local_ray():
    """One embedded Ray for all tests that need one."""
    import ray

    assert not ray.is_initialized(), "a test started a Ray of its own, which may be too small for others"
    ray.init(
        address="local",  # a `ray start` on this machine would otherwise be joined
        num_cpus=8,  # actors wait more than they compute
        object_store_memory=200 * 2**20,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def running_service(local_ray, tmp_path_factory):
    """The rollout actors that all tests of the service share."""
    from tests.support.service import started_service

    with started_service(tmp_path_factory.mktemp("service") / "faults.json") as service:
        yield service


@pytest.fixture
def service(running_service):
    """The shared service, without the faults that a test before may have left."""
    running_service.fail()
    yield running_service
    running_service.fail()
