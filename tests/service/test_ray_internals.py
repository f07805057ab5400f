"""Ray's private parts: two modules name them, and nobody else does; what breaks where one of them is gone."""

import ast
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ttray

PACKAGE = Path(ttray.__file__).parent
SOURCES = {str(path.relative_to(PACKAGE.parent)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
# Meant to be written or called by others: RLlib's documentation tells to, `os` and `pickle` are Python's own,
# and so is what torch keeps of hooks and SB3 has policies define, which is no business of Ray.
OTHERS = {
    "_forward",
    "_forward_inference",
    "_forward_exploration",
    "_forward_train",
    "_forward_hooks",
    "_forward_pre_hooks",
    "_predict",
    "_exit",
    "_Unpickler",
}


def is_private(name):
    return name.startswith("_") and not name.endswith("__") and name != "_" and name not in OTHERS


def private_of_others(source):
    """Private names that a module takes from elsewhere than from itself and its own objects."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ray":
            names = [*node.module.split("."), *(each.name for each in node.names)]
            yield from filter(is_private, names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if "._" in each.name)
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.attr
        elif isinstance(node, ast.keyword) and is_private(node.arg or ""):
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\bray(?:\.\w+)*\._\w+", node.value)


def is_defined(name, source):
    """Whether it is a function or class of the module, or an attribute that it sets."""
    return re.search(rf"(def|class) {name}\b|self\.{name}\b", source)


def test_two_modules_name_what_is_private_of_ray_and_no_other_does():
    found = {
        path: names
        for path, source in SOURCES.items()
        if (names := {each for each in private_of_others(source) if not is_defined(each, source)})
    }
    (names,) = found.values()
    assert set(found) == {"ttray/service/ray_internals.py"}
    assert names == {"_private", "ray._private", "_global_node", "_py_driver_sys_path"}


def classes_on_ray():
    """Classes of ttray whose bases are Ray's, with the source of those bases."""
    for path in SOURCES:
        if path.startswith(("ttray/rllib/", "ttray/service/")) and not path.endswith("__init__.py"):
            module = import_module(path.removesuffix(".py").replace("/", "."))
            for each in vars(module).values():
                if inspect.isclass(each) and each.__module__ == module.__name__:
                    bases = [base for base in each.__mro__ if base.__module__.split(".")[0] == "ray"]
                    if bases and not each.__module__.startswith("ray."):
                        yield path, each, "\n".join(map(inspect.getsource, bases))


def test_classes_on_those_of_ray_touch_nothing_private_of_their_bases_elsewhere():
    found = {}
    for path, each, bases in classes_on_ray():
        own = re.findall(r"(?:self\.|super\(\)\.|def )(_\w+)", inspect.getsource(each))
        if theirs := {name for name in own if is_private(name) and is_defined(name, bases)}:
            found[each.__name__] = theirs
            assert path == "ttray/rllib/rllib_internals.py", theirs
    assert found == {"QuietAlgorithm": {"_setup_logdir"}}


def test_no_ray_is_started_that_could_not_be_kept_from_the_network(monkeypatch):
    from ray._private import ray_constants

    from ttray.service.ray_internals import loopback_as_address

    with loopback_as_address():
        assert not ray_constants.ENABLE_RAY_CLUSTER
    assert ray_constants.ENABLE_RAY_CLUSTER is (sys.platform == "linux")
    monkeypatch.delattr(ray_constants, "ENABLE_RAY_CLUSTER")
    with pytest.raises(RuntimeError, match="listening on the network"), loopback_as_address():
        pass


def test_workers_are_given_the_path_of_the_driver_and_not_its_directory():
    from ttray.service.ray_internals import job_on_drivers_path

    config = job_on_drivers_path()
    config._py_driver_sys_path.extend(["/where/the/driver/was/started"])  # as ray.init does
    assert sent_path(config) == [str(Path(each).absolute()) for each in reversed(sys.path)]


def test_a_job_that_brings_its_directory_is_given_no_path():
    from ttray.service.ray_internals import job_on_drivers_path

    assert sent_path(job_on_drivers_path()) == []


def sent_path(config):
    from ray.core.generated.common_pb2 import JobConfig

    return list(JobConfig.FromString(config._serialize()).py_driver_sys_path)


def test_a_version_without_the_worker_of_old_has_nothing_to_forget(monkeypatch):
    from ttray.service.ray_internals import forget_connection

    monkeypatch.setitem(sys.modules, "ray._private.worker", None)
    assert forget_connection() is None
