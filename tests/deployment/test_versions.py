"""The exact versions of constraints.txt: within the ranges of pyproject.toml, used by all that installs."""

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deployment.test_cluster_files import PROJECT, ROOT, dockerfile, ray_up, stages_of

CONSTRAINTS = (ROOT / "constraints.txt").read_text()
OPTION = "--constraint constraints.txt"
NOT_OURS = ".sample-factory/"  # an environment of another program, which needs older versions


def exact_versions(text):
    """Version by name; anything but one exact version of a name is an error."""
    versions = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, version = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][a-z0-9.]*)", line).groups()
            assert canonicalize_name(name) not in versions, f"{name} twice"
            versions[canonicalize_name(name)] = version
    return versions


def requirements(project):
    extras = project["optional-dependencies"].values()
    return [Requirement(each) for group in (project["dependencies"], *extras) for each in group]


def problems_of_versions(project, constraints):
    found = []
    versions = exact_versions(constraints)
    for each in requirements(project):
        name = canonicalize_name(each.name)
        if name not in versions:
            found.append(f"{name} has no exact version")
        elif versions[name] not in each.specifier:
            found.append(f"{name} {versions[name]} is not within {each.specifier}")
    for each in map(Requirement, project["dependencies"]):
        if {bound.operator for bound in each.specifier} != {">=", "<"}:
            found.append(f"{each} is no range")
    return found


def test_every_dependency_has_an_exact_version_within_its_range():
    assert problems_of_versions(PROJECT, CONSTRAINTS) == []


@pytest.mark.parametrize(
    ("pattern", "replacement", "complaint"),
    [
        ("numpy==.*\n", "", "numpy has no exact version"),
        ("numpy==.*\n", "numpy==1.21.0\n", "numpy 1.21.0 is not within"),
        ("ray==.*\n", "ray==3.0.0\n", "ray 3.0.0 is not within"),
        ("torchrl==.*\n", "", "torchrl has no exact version"),
        ("mypy==.*\n", "mypy==1.0.0\n", "mypy 1.0.0 is not within"),
    ],
)
def test_a_wrong_version_is_found(pattern, replacement, complaint):
    text, count = re.subn(f"^{pattern}", replacement, CONSTRAINTS, flags=re.MULTILINE)
    assert count == 1
    assert any(each.startswith(complaint) for each in problems_of_versions(PROJECT, text))


@pytest.mark.parametrize("dependency", ["numpy", "numpy==2.0.0", "numpy>=1.26"])
def test_a_dependency_without_both_bounds_is_found(dependency):
    project = PROJECT | {"dependencies": [dependency]}
    assert f"{dependency} is no range" in problems_of_versions(project, CONSTRAINTS)


def install_commands(makefile, image, machines):
    """Every command of the tools that installs packages, by the tool."""
    texts = {
        "Makefile": makefile.splitlines(),
        "Dockerfile": [rest for stage in stages_of(image) for keyword, rest in stage if keyword == "RUN"],
        "ray-up.yaml": [
            command
            for each in ("initialization_commands", "setup_commands", "head_setup_commands")
            for command in machines.get(each, [])
        ],
    }
    return {
        tool: [each for each in lines if "pip install" in each and NOT_OURS not in each]
        for tool, lines in texts.items()
    }


def problems_of_installation(makefile, image, machines):
    commands = install_commands(makefile, image, machines)
    found = [f"{tool}: {each}" for tool, lines in commands.items() for each in lines if OPTION not in each]
    found += [f"{tool} installs nothing" for tool, lines in commands.items() if not lines]
    if not re.search(r"^\$\(READY\):.* constraints\.txt\b", makefile, re.MULTILINE):
        found.append("Makefile: other versions do not renew the environment")
    if machines["file_mounts"].get("~/ttray/constraints.txt") != "constraints.txt":
        found.append("ray-up.yaml: the machines do not get the file")
    return found


def test_all_that_installs_takes_the_exact_versions():
    makefile = (ROOT / "Makefile").read_text()
    assert problems_of_installation(makefile, dockerfile(), ray_up()) == []


@pytest.mark.parametrize("tool", ["Makefile", "Dockerfile", "ray-up.yaml"])
def test_a_tool_that_installs_other_versions_is_found(tool):
    texts = {"Makefile": (ROOT / "Makefile").read_text(), "Dockerfile": dockerfile()}
    machines = ray_up()
    if tool in texts:
        texts[tool] = texts[tool].replace(f" {OPTION}", "")
    else:
        machines = machines | {"setup_commands": ["pip install dist/*.whl"]}
    found = problems_of_installation(texts["Makefile"], texts["Dockerfile"], machines)
    assert found
    assert all(each.startswith(f"{tool}: ") for each in found)


def test_a_version_that_changes_nothing_or_goes_nowhere_is_found():
    makefile = (ROOT / "Makefile").read_text().replace(": pyproject.toml constraints.txt", ": pyproject.toml")
    machines = ray_up() | {"file_mounts": {}}
    assert problems_of_installation(makefile, dockerfile(), machines) == [
        "Makefile: other versions do not renew the environment",
        "ray-up.yaml: the machines do not get the file",
    ]


def test_what_only_the_machines_install_has_an_exact_version():
    assert any(each.endswith(f"{OPTION} boto3") for each in ray_up()["head_setup_commands"])
    assert "boto3" in exact_versions(CONSTRAINTS)
