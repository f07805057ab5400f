"""The release check: its cheap parts, on copies of the files. Nothing is built here."""

import os
import runpy
import shutil
from importlib.metadata import version

import pytest

from tests.deployment.test_cluster_files import PROJECT, ROOT

problems = runpy.run_path(str(ROOT / ".ci/versions.py"))["problems"]


@pytest.fixture
def copy(tmp_path):
    """What names a version, with lines moved out of "Unreleased" as for a release."""
    for name in ("pyproject.toml", "CHANGELOG.md", "docs/guide/clusters.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("docker", "cluster"):
        shutil.copytree(ROOT / name, tmp_path / name)
    head, _, _ = (tmp_path / "CHANGELOG.md").read_text().partition("## ")
    (tmp_path / "CHANGELOG.md").write_text(f"{head}## Unreleased\n\n## {PROJECT['version']}\n\n- All.\n")
    return tmp_path


def test_the_files_here_name_one_version():
    found = problems(ROOT, version("ttray"))
    # Between releases there are lines under "Unreleased".
    assert [each for each in found if "'Unreleased' is not empty" not in each] == []


def test_a_copy_that_is_ready_has_no_problems(copy):
    assert problems(copy, PROJECT["version"]) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "complaint"),
    [
        ("CHANGELOG.md", "## {version}", "## 0.0.9", "begin a section '## {version}'"),
        ("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n- New.\n", "'Unreleased' is not empty"),
        (
            "docker/Dockerfile",
            "ttray:{version}",
            "ttray:0.0.9",
            "docker/Dockerfile:4: ttray:0.0.9; change it",
        ),
        ("docker/compose.yaml", "ttray:{version}", "ttray:0.0.9", "docker/compose.yaml:"),
        ("cluster/kuberay-job.yaml", "ttray:{version}", "ttray:0.0.9", "cluster/kuberay-job.yaml:"),
        ("docs/guide/clusters.md", "ttray:{version}", "ttray:0.0.9", "docs/guide/clusters.md:"),
        ("pyproject.toml", 'version = "{version}"', 'version = "9.9.9"', "pyproject.toml says 9.9.9"),
    ],
)
def test_another_version_is_found_with_its_file(copy, name, old, new, complaint):
    text = (copy / name).read_text()
    old, complaint = (each.format(version=PROJECT["version"]) for each in (old, complaint))
    assert old in text
    (copy / name).write_text(text.replace(old, new))
    assert any(complaint in each for each in problems(copy, PROJECT["version"]))


def test_make_release_is_the_script():
    assert "\t.ci/release\n" in (ROOT / "Makefile").read_text()
    assert os.access(ROOT / ".ci/release", os.X_OK)


def test_a_release_tries_the_lowest_versions():
    assert "\n.ci/ranges ||" in (ROOT / ".ci/release").read_text()
    assert os.access(ROOT / ".ci/ranges", os.X_OK)
