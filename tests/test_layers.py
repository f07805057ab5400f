"""Imports point downwards only, and what a layer must not know cannot even be imported there."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ttray"
# From the bottom up; a module may import from its own layer and from those before it.
LAYERS = (
    "registration",
    "boundary",
    "numerics",
    "policies",
    "plans",
    "settings",
    "data",
    "estimators",
    "optim",
    "envs",
    "rollout",
    "service",
    "rllib",
    "runs",
    "callbacks",
    "soak",
    "cli",
    "core",  # old names only
    "__main__",
)
MATHEMATICS = LAYERS[1:9]
WHOLE_PACKAGE = len(LAYERS)  # above all layers: it offers names from most of them
FRONTS = ("ttray.__init__", "ttray.policies.__init__")  # offer names from above, and load them when asked
CHECKOUT = ("paper", "benchmarks")  # above the package, which is installed without them
# What no module of a layer may name.
UNKNOWN = {
    **dict.fromkeys(MATHEMATICS, ("ray", "gymnasium")),
    "envs": ("ray",),
    "rollout": ("ray",),
    "service": ("ray.rllib",),
}


def modules():
    for path in sorted(path for place in ("ttray", *CHECKOUT) for path in (ROOT / place).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if name not in FRONTS:
            yield name.removesuffix(".__init__"), path


MODULES = dict(modules())


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_short_enough_to_hold_one_idea(name):
    assert len(MODULES[name].read_text().splitlines()) <= 350


def is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def room_of(name: str) -> str:
    """The first word of a module's place: below `ttray`, or of the checkout."""
    return name.removeprefix("ttray.").partition(".")[0]


class Uses(ast.NodeVisitor):
    """The dotted names that a module takes from others: by `import`, by `from`, and through what it imported.

    `import ttray` alone says nothing; `ttray.collect` further down does. A package that is imported and not
    used, or handed on as a whole, stands for itself.
    """

    def __init__(self, source: str) -> None:
        self.names: set[str] = set()
        self._bound: dict[str, str] = {}
        self._used: set[str] = set()
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, "relative import"
                self.names |= {f"{node.module}.{alias.name}" for alias in node.names}
        self.visit(tree)
        self.names |= {name for local, name in self._bound.items() if local not in self._used}

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            self._bound[alias.asname or root] = alias.name if alias.asname else root
            if "." in alias.name:
                self.names.add(alias.name)
                self._used.add(root)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        dotted, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            dotted.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self._bound:
            self._use(inner.id, dotted[::-1])
        else:
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._bound:
            self._use(node.id, [])

    def _use(self, local: str, attributes: list[str]) -> None:
        self._used.add(local)
        self.names.add(".".join([self._bound[local], *attributes]))


def homes_of(source: str) -> dict[str, str]:
    """The module that each name of the package itself comes from, as its `__init__` tells.

    By an import, or in a table of names and modules for those that are imported when they are needed.
    """
    homes = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            homes |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            homes |= {
                name.value: module.value
                for name, module in pairs
                if isinstance(name, ast.Constant) and isinstance(module, ast.Constant)
            }
    return homes


HOMES = homes_of((PACKAGE / "__init__.py").read_text())


def layer_of(name: str) -> int:
    """The layer of a dotted name that begins with `ttray`, or with a package of the checkout."""
    parts = name.split(".")
    if parts[0] in CHECKOUT:
        return WHOLE_PACKAGE + 1 + CHECKOUT.index(parts[0])
    if len(parts) == 1:
        return WHOLE_PACKAGE
    if parts[1] in LAYERS:
        return LAYERS.index(parts[1])
    if parts[1].startswith("__"):
        return 0  # the version
    home = HOMES.get(parts[1], "ttray")
    return layer_of(home) if is_within(home, ("ttray",)) else WHOLE_PACKAGE


def breaches(name: str, source: str) -> list[str]:
    """What the module `name` with this text takes from where it must not."""
    used = sorted(Uses(source).names)
    ours = [one for one in used if is_within(one, ("ttray", *CHECKOUT))]
    upwards = [one for one in ours if layer_of(one) > layer_of(name)]
    unknown = UNKNOWN.get(room_of(name), ())
    return upwards + [one for one in used if is_within(one, unknown)]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_takes_only_from_its_layer_and_below(name):
    assert breaches(name, MODULES[name].read_text()) == []


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("ttray.plans.dcs", "import ray", ["ray"]),
        ("ttray.plans.dcs", "from gymnasium import spaces", ["gymnasium.spaces"]),
        ("ttray.plans.dcs", "def f():\n    import ray.util as u", ["ray.util"]),
        ("ttray.plans.dcs", "import numpy\nimport rayon\nnumpy.ray", []),
        ("ttray.rollout.slots", "import gymnasium\nimport ray", ["ray"]),
        ("ttray.service.worker", "import ray\nray.put(1)", []),
        ("ttray.service.worker", "import ray\nray.rllib.env", ["ray.rllib.env"]),
        ("ttray.service.worker", "from ray import rllib", ["ray.rllib"]),
        ("ttray.service.worker", "from ray.rllib.env import env_runner", ["ray.rllib.env.env_runner"]),
        ("ttray.service.worker", "import ttray\nttray.dcs.uniform(1, 1)", []),
        ("ttray.service.worker", "import ttray as t\nt.plans.dcs", []),
        ("ttray.service.worker", "import ttray\nprint(ttray.__version__)", []),
        ("ttray.service.worker", "import ttray\nttray.collect()", ["ttray.collect"]),
        ("ttray.service.worker", "import ttray as t\nt.collect()", ["ttray.collect"]),
        ("ttray.service.worker", "import ttray.plans\nttray.TTPOIS", ["ttray.TTPOIS"]),
        ("ttray.service.worker", "import ttray.rllib.config", ["ttray.rllib.config"]),
        (
            "ttray.service.worker",
            "import ttray.rllib.config as c\nc.X",
            ["ttray.rllib.config", "ttray.rllib.config.X"],
        ),
        ("ttray.service.worker", "from ttray import digest, dcs", []),
        ("ttray.service.worker", "from ttray import TTPOIS", ["ttray.TTPOIS"]),
        ("ttray.service.worker", "from ttray import rllib", ["ttray.rllib"]),
        ("ttray.service.worker", "from ttray import *", ["ttray.*"]),
        ("ttray.service.worker", "from ttray.runs.collect import collect", ["ttray.runs.collect.collect"]),
        ("ttray.service.worker", "import ttray  # for what it registers", ["ttray"]),
        ("ttray.service.worker", "import ttray\ngetattr(ttray, name)", ["ttray"]),
        ("ttray.cli.app", "import ttray\nttray.collect(), ttray.nowhere", ["ttray.nowhere"]),
        ("ttray.runs.training", "import ttray\nttray.collect()", []),
        ("ttray.cli.app", "from paper.claims import tables", ["paper.claims.tables"]),
        ("ttray.cli.app", "def f():\n    import benchmarks", ["benchmarks"]),
        ("paper.claims", "import ttray\nfrom ttray.cli.app import run_alone\nttray.collect()", []),
        ("paper.claims", "from benchmarks import report", ["benchmarks.report"]),
        ("benchmarks.envs", "import ray\nfrom paper import markdown", []),
    ],
)
def test_every_way_to_import_is_seen(name, source, found):
    assert breaches(name, source) == found


def test_relative_imports_are_refused():
    with pytest.raises(AssertionError, match="relative"):
        Uses("from . import dcs")


def test_the_package_tells_where_each_of_its_names_comes_from():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (public,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    assert [name for name in public if layer_of(f"ttray.{name}") == WHOLE_PACKAGE] == []


# The layers from the bottom up, and what does not exist for them and those below.
STAGES = [
    (MATHEMATICS, ("gymnasium", "ray")),
    (("envs", "rollout"), ("ray",)),
    (("service",), ("ray.rllib",)),
]

PROGRAM = """
import importlib, json, sys, traceback

found = {}
for names, missing in json.load(sys.stdin):
    for name in [name for name, module in sys.modules.items() if module is None]:
        del sys.modules[name]
    sys.modules.update(dict.fromkeys(missing))
    for name in names:
        try:
            importlib.import_module(name)
            loaded = [m for m in missing if sys.modules.get(m, m) is not None]
            found[name] = f"loads {loaded}" if loaded else ""
        except Exception:
            found[name] = traceback.format_exc()
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def imported():
    """What was wrong with each module in one interpreter that lacks what its layer must not know."""
    stages = [([name for name in MODULES if room_of(name) in layers], missing) for layers, missing in STAGES]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=PACKAGE.parent,
        input=json.dumps(stages),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", [n for layers, _ in STAGES for n in MODULES if room_of(n) in layers])
def test_a_lower_layer_loads_where_what_it_must_not_know_is_missing(imported, name):
    assert imported[name] == ""
