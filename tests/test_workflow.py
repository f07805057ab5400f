"""The workflow and the hooks of a commit run what a developer runs, and copies that do not are refused."""

import os
import re
import tomllib
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github/workflows/ci.yaml"
HOOKS = ROOT / ".pre-commit-config.yaml"
LINT = YamlLintConfig("{extends: default, rules: {line-length: {max: 110}, document-start: disable}}")


@pytest.mark.parametrize("path", [*WORKFLOW.parent.iterdir(), HOOKS], ids=lambda path: path.name)
def test_yaml_is_well_written(path):
    assert [str(each) for each in linter.run(path.read_text(), LINT, str(path))] == []


def workflow():
    return yaml.safe_load(WORKFLOW.read_text())


def problems_of_workflow(config):
    found = []
    if not {"push", "pull_request"} <= set(config["on"]):
        found.append("not on every push and pull request")
    if config.get("permissions") != {"contents": "read"}:
        found.append("may write")
    (job,) = config["jobs"].values()
    if not job.get("timeout-minutes"):
        found.append("may hang for six hours")
    commands = [step["run"] for step in job["steps"] if "run" in step]
    if commands != [".ci/run"]:
        found.append("does something else than .ci/run")
    python = next(step["with"] for step in job["steps"] if "setup-python" in step.get("uses", ""))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if f">={python['python-version']}" != project["requires-python"]:
        found.append("another Python")
    if python.get("cache-dependency-path", "").split() != ["pyproject.toml", "constraints.txt"]:
        found.append("caches other dependencies")
    return found


def test_the_workflow_runs_what_a_developer_runs():
    assert problems_of_workflow(workflow()) == []
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda config, job: config["on"].pop("pull_request"), "not on every"),
        (lambda config, job: config.pop("permissions"), "may write"),
        (lambda config, job: job.pop("timeout-minutes"), "may hang"),
        (lambda config, job: job["steps"][-1].update(run="make lint"), "something else"),
        (lambda config, job: job["steps"].append({"run": "true"}), "something else"),
        (lambda config, job: job["steps"][1]["with"].update({"python-version": "3.12"}), "another Python"),
        (lambda config, job: job["steps"][1]["with"].pop("cache-dependency-path"), "caches other"),
    ],
)
def test_a_wrong_workflow_is_refused(change, complaint):
    config = deepcopy(workflow())
    (job,) = config["jobs"].values()
    change(config, job)
    assert any(complaint in each for each in problems_of_workflow(config))


def commands_of(target):
    """The recipe of a target of the Makefile, as a shell would see it."""
    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]


def test_a_commit_is_checked_by_the_commands_of_make_lint_and_types():
    (repo,) = yaml.safe_load(HOOKS.read_text())["repos"]
    assert repo["repo"] == "local"  # another one would bring its own version of the tools
    assert [hook["entry"] for hook in repo["hooks"]] == commands_of("lint") + commands_of("types")
    assert {(hook["language"], hook["pass_filenames"]) for hook in repo["hooks"]} == {("system", False)}
