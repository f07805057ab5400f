"""The pages say what is there: settings, results as training gives them, modules, links."""

import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import ttray
from ttray.runs.own_settings import ALL_SETTINGS
from ttray.settings.training import SETTINGS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def described_results():
    """The keys that docs/reference/metrics.md describes, by where they stand in a result."""
    text = (ROOT / "docs/reference/metrics.md").read_text()
    found = re.findall(r"^## ([\w/]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return {prefix: set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) for prefix, rows in found}


@pytest.mark.usefixtures("local_ray")
def test_the_results_of_training_are_described_and_no_others():
    config = (
        ttray.TTPOISConfig()
        .environment("ttray/CorridorSparse-v0")
        .training(horizon=5, budget=20, gamma=0.9, hidden_sizes=[4])
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    try:
        result = algorithm.train()
    finally:
        algorithm.stop()
    described = described_results()
    assert len(described) == 2
    for prefix, keys in described.items():
        found = result
        for part in prefix.split("/"):
            found = found[part]
        assert set(found) == keys, prefix


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [to for to in targets if "://" not in to and not (page.parent / to).exists()]
    assert missing == []


def test_the_table_of_settings_has_all_of_them():
    pages = runpy.run_path(str(ROOT / "docs/tools/pages.py"))
    table = pages["on_page_markdown"]((ROOT / "docs/reference/settings.md").read_text())
    assert [name for name in ALL_SETTINGS if f"| `{name}` |" not in table] == []


def test_delta_is_called_one_thing():
    said = [
        (path.name, line.strip())
        for path in ROOT.glob("ttray/**/*.py")
        for line in path.read_text().splitlines()
        if re.search(r" delta: ([A-Z]\w+ |Annotated\[.)", line) and "rule(" not in line.lower()
    ]
    assert len(said) > 15
    one_thing = re.compile("Probability that ((the|a|an) (bound|interval) fails|anything (claimed|said) )")
    assert [each for each in said if not one_thing.search(each[1])] == []
    assert one_thing.search(SETTINGS["delta"].help)


def test_what_the_contributors_page_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    names = re.findall(r"`((?:ttray|benchmarks|paper|tests|docs|examples|\.ci|\.github)/[\w./-]+)`", text)
    assert len(names) > 10
    assert [name for name in names if not (ROOT / name).exists()] == []


ROOMS = sorted(path.parent.name for path in ROOT.glob("ttray/*/__init__.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_names_of_the_package_is_there(page):
    for name in re.findall(rf"`(?:ttray\.)?((?:{'|'.join(ROOMS)})(?:\.\w+)+)[`(.]", page.read_text()):
        if not name.endswith((".md", ".json", ".png")):
            pkgutil.resolve_name(f"ttray.{name}")


def test_the_architecture_page_draws_modules_that_are_there_and_lists_every_room():
    text = (ROOT / "docs/concepts/architecture.md").read_text()
    drawn = re.findall(r"\b[a-z]+\.[a-z_]+\b", text.split("```")[1])
    assert len(drawn) >= 7
    assert [name for name in drawn if not (ROOT / "ttray" / f"{name.replace('.', '/')}.py").exists()] == []
    assert sorted(re.findall(r"^\| `ttray/([a-z]+)/", text, re.MULTILINE)) == ROOMS


def test_the_drawings_are_what_their_script_draws_now():
    drawings = runpy.run_path(str(ROOT / "docs/tools/drawings.py"))["DRAWINGS"]
    assert len(drawings) == 3
    old = [name for name, draw in drawings.items() if (ROOT / "docs/images" / name).read_text() != draw()]
    assert old == [], "run `python docs/tools/drawings.py`"
