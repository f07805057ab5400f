"""The pages say what is there: the API as the docstrings have it, results as training gives them, links."""

import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import ttray
from ttray.envs import ENVIRONMENT_IDS
from ttray.runs.own_settings import ALL_SETTINGS
from ttray.settings.training import SETTINGS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
make_api = runpy.run_path(str(ROOT / "docs/make_api.py"))


def test_the_api_page_is_what_the_docstrings_say_now():
    assert (ROOT / "docs/api.md").read_text() == make_api["page"](), "run `make docs`"


def test_the_api_page_has_every_public_name():
    headings = re.findall(r"^#+ (\S+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
    names = {f"ttray.{name}" for name in ttray.__all__} | {f"ttray.dcs.{name}" for name in ttray.dcs.__all__}
    assert names | set(ENVIRONMENT_IDS) <= set(headings)


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
    described = {prefix: set(keys) for prefix, keys in make_api["RESULTS"].items()}
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


def test_the_table_of_settings_is_current():
    text = (ROOT / "docs/runs.md").read_text()
    assert text == make_api["with_settings"](text), "run `make docs`"
    assert all(f"| `{name}` |" in text for name in ALL_SETTINGS)


def test_delta_is_called_one_thing():
    said = [
        (path.name, line.strip())
        for path in ROOT.glob("ttray/**/*.py")
        for line in path.read_text().splitlines()
        if re.search(r" delta: ([A-Z]\w+ |Annotated)", line) and "rule(" not in line.lower()
    ]
    assert len(said) > 15
    one_thing = re.compile("Probability that (the|a|an) (bound|interval) fails")
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
    text = (ROOT / "docs/architecture.md").read_text()
    drawn = re.findall(r"\b[a-z]+\.[a-z_]+\b", text.split("```")[1])
    assert len(drawn) >= 7
    assert [name for name in drawn if not (ROOT / "ttray" / f"{name.replace('.', '/')}.py").exists()] == []
    assert sorted(re.findall(r"^\| `ttray/([a-z]+)/", text, re.MULTILINE)) == ROOMS
