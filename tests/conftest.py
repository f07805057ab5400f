import signal
import sys
from pathlib import Path

import hypothesis
import pytest
import torch

TESTS = Path(__file__).parent
# Whose tests wait for processes, the longest first; all others only compute.
WAITING = (
    "cli",
    "hostile",
    "service",
    "paper",
    "rllib",
    "runs",
    "callbacks",
    "soak",
    "test_examples.py",
    "deployment",
    "benchmarks",
    "test_registration.py",
)
ON_THE_SERVICE = (
    "test_acting.py",
    "test_bound_elsewhere.py",
    "test_closing.py",
    "test_determinism.py",
    "test_faults.py",
    "test_handles.py",
    "test_own_models.py",
    "test_same_bits.py",
    "test_stragglers.py",
)

RAY_IS_SHARED = pytest.StashKey[bool]()

# The tests' tensors are tiny: threads would only wait for each other.
torch.set_num_threads(1)

# No test judges a time: on a busy machine an example takes a second once in a while. The examples are the
# same every time, so that who changes one thing is not told of another.
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True)
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


@pytest.hookimpl(trylast=True)  # after the test's own fixtures have cleaned up
def pytest_runtest_teardown(item):
    if item.config.getoption("--without-ray"):
        assert sys.modules["ray"] is None, "this test, or what it calls, lifted the block and imported Ray"
    elif (
        "ray" in sys.modules
        and sys.modules["ray"].is_initialized()
        and not item.config.stash.get(RAY_IS_SHARED, False)
    ):
        sys.modules["ray"].shutdown()  # other tests are not to pay for it
        pytest.fail("this test left a Ray of its own, which may be too small for others; use local_ray")


def pytest_collection_modifyitems(items):
    """Puts the long files first, so that the short ones fill up whichever process is free at the end."""

    def rank(item):
        place = item.path.relative_to(TESTS).parts[0]
        return WAITING.index(place) if place in WAITING else len(WAITING)

    items.sort(key=rank)  # stable: within a folder the order stays


@pytest.hookimpl(optionalhook=True)  # xdist's
def pytest_xdist_make_scheduler(config, log):
    """Keeps the tests of each file together, and those of the running service: only one process starts it."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduler(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "service" if file.removeprefix("tests/service/") in ON_THE_SERVICE else file

    return Scheduler(config, log)


@pytest.fixture
def signals_are_heard():
    """Lets a test and processes it starts hear Ctrl-C and SIGHUP, also under nohup and in the background."""
    # A handler is not inherited by other programs; that a signal is ignored would be.
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: lambda *_: None}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def local_ray(request):
    """One embedded Ray for all tests that need one."""
    import ray

    from ttray.service.connection import start_embedded

    start_embedded(8, object_store_memory=200 * 2**20)  # actors wait more than they compute
    request.config.stash[RAY_IS_SHARED] = True
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
