"""Imports point downwards only."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "ttray"
# From the bottom up; a module may import from its own layer and from those before it.
LAYERS = (
    "registration",
    "core",
    "envs",
    "rollout",
    "service",
    "rllib",
    "runs",
    "paper",
    "benchmarks",
    "cli",
    "__main__",
)


def layer_of(module: str) -> int:
    return LAYERS.index(module.split(".")[1])


def imports_of(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        if name != "ttray.__init__":
            yield name.removesuffix(".__init__"), path


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda value: str(value))
def test_a_module_imports_only_from_its_layer_and_below(name, path):
    for imported in imports_of(path):
        if imported.startswith("ttray."):
            assert layer_of(imported) <= layer_of(name), f"{name} imports {imported}"


@pytest.mark.parametrize("name", sorted(path.stem for path in (PACKAGE / "core").glob("[a-z]*.py")))
def test_core_imports_without_ray_and_gymnasium(name):
    program = (
        "import sys; sys.modules['ray'] = sys.modules['gymnasium'] = None\n"
        f"import ttray.core.{name}\n"
        "assert not [m for m in sys.modules if m.startswith(('ray.', 'gymnasium.'))]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
