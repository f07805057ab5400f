"""The site is built strictly, needs no network to be read, and has what people look for."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ttray
from ttray.envs import ENVIRONMENT_IDS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it: any link, anchor or name that leads nowhere is an error."""
    directory = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", directory],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
        timeout=200,
    )
    return directory


@pytest.fixture(scope="module")
def sections(site):
    """What the search looks through."""
    return json.loads((site / "search/search_index.json").read_text())["docs"]


class Loaded(HTMLParser):
    """Collects what a browser loads by itself, and the targets of links."""

    def __init__(self):
        super().__init__()
        self.loaded, self.linked, self.names = [], [], set()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.names |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag in ("script", "img", "iframe", "source", "video"):
            self.loaded.append(values.get("src"))
        elif tag == "link" and values.get("rel") != "canonical":
            self.loaded.append(values.get("href"))
        elif tag == "a":
            self.linked.append(values.get("href"))


def read(page):
    parser = Loaded()
    parser.feed(page.read_text())
    return parser


def test_nothing_is_loaded_from_the_network(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        assert [each for each in read(page).loaded if each and "//" in each] == [], page.name
    for sheet in [*site.rglob("*.css")]:
        assert re.findall(r"(?:url\(|@import)\s*['\"]?https?:", sheet.read_text()) == [], sheet.name


def test_every_link_and_anchor_of_the_built_pages_leads_somewhere(site):
    pages = {page: read(page) for page in site.rglob("*.html") if page.name != "404.html"}
    lost = []
    for page, parser in pages.items():
        for target in filter(None, parser.linked):
            path, _, anchor = target.partition("#")
            if "://" in path or path.startswith("mailto:"):
                continue
            to = (page.parent / path).resolve() if path else page
            if not to.exists() or (anchor and to in pages and anchor not in pages[to].names):
                lost.append((page.name, target))
    assert lost == []


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("SB3", "guide/policies.html"),
        ("confidence", "concepts/guarantees.html"),
        ("SLURM", "guide/clusters.html"),
        ("checkpoint", "guide/runs.html"),
    ],
)
def test_the_search_finds(sections, words, page):
    found = {
        each["location"].partition("#")[0]
        for each in sections
        if words.lower() in f"{each['title']} {each['text']}".lower()
    }
    assert page in found


def test_every_public_name_is_in_the_reference(sections):
    anchors = {each["location"].partition("#")[2] for each in sections}
    functions = {
        f"ttray.{name}" for name in ttray.__all__ if name not in ("callbacks", "dcs", "planning", "policies")
    }
    for module in (ttray.callbacks, ttray.dcs, ttray.planning, ttray.policies):
        short = next(name for name in ttray.__all__ if getattr(ttray, name) is module)
        functions |= {f"ttray.{short}.{name}" for name in module.__all__}
    assert functions - anchors == set()
    text = "".join(
        f"{each['title']} {each['text']}" for each in sections if "environments" in each["location"]
    )
    assert [name for name in ENVIRONMENT_IDS if name not in text] == []
