"""Whether all files name the version of pyproject.toml: `python .ci/versions.py`, from the root."""

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

IMAGE = re.compile(r"\bttray:(\d[\w.]*)")


def problems(root: Path, installed: str) -> list[str]:
    """What has to be put right before a release, a line each with the file to change.

    Args:
        root: Of the repository.
        installed: The version that `ttray.__version__` tells.
    """
    wanted = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    found = []
    if installed != wanted:
        found.append(
            f".venv has ttray {installed}, pyproject.toml says {wanted}: rm .venv/.ready && make lint"
        )
    sections = re.split(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    released = [name.split()[0] for name in sections[::2] if name != "Unreleased"]
    if released[:1] != [wanted]:
        newest = released[0] if released else "none"
        found.append(f"CHANGELOG.md: the newest version is {newest}; begin a section '## {wanted}'")
    if sections[0] == "Unreleased" and sections[1].strip():
        found.append(f"CHANGELOG.md: 'Unreleased' is not empty; move its lines to '## {wanted}'")
    named = 0
    for path in sorted(
        [*root.glob("docker/*"), *root.glob("cluster/*.yaml"), root / "docs/guide/clusters.md"]
    ):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for tag in IMAGE.findall(line):
                named += 1
                if tag != wanted:
                    found.append(
                        f"{path.relative_to(root)}:{number}: ttray:{tag}; change it to ttray:{wanted}"
                    )
    if not named:
        found.append(
            "no file of docker/ and cluster/ names an image; look for them elsewhere in .ci/versions.py"
        )
    return found


if __name__ == "__main__":
    complaints = problems(Path.cwd(), version("ttray"))
    print("\n".join(complaints) or "all versions agree")
    sys.exit(bool(complaints))
