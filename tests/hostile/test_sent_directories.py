"""Directories that hold secrets, links and pipes: what `ttray submit --working-dir` sends of them."""

import os
import stat
import zipfile
from pathlib import Path

import pytest

from tests.support.hostile_files import sparse
from ttray.cli.sending import parcel_of

SECRETS = (
    ".env", ".env.local", ".envrc", "prod.env", ".netrc", ".ssh/id_rsa", ".ssh/config", ".aws/credentials",
    ".kube/config", ".docker/config.json", ".gnupg/key", ".git/config", ".venv/bin/python", "deep/er/.env",
    "credentials", "credentials.json", "my_credentials.json", "secrets.toml", "tls.pem", "tls.key", "id_rsa",
    "id_ed25519.pub", "deep/id_rsa", ".bash_history", ".pypirc", "runs/dam/run.json", "deep/.aws/credentials",
)  # fmt: skip
HARMLESS = ("mine.py", "deep/er/net.py", "ttray/runs/run.py", "keys.py", "environment.py", ".gitignore")


def put(root, *names, text="x"):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def sent(root):
    return set(parcel_of(root).files)


def test_secrets_and_results_stay_and_all_else_goes(tmp_path):
    put(tmp_path, *SECRETS, *HARMLESS)
    (tmp_path / ".gitignore").write_text("!.env\n!*.pem\n!.ssh\n")  # whatever it says
    assert sent(tmp_path) == set(HARMLESS)


# (.gitignore's by their directories, what is there, what of it goes)
IGNORED = {
    "a pattern": ({"": "*.csv"}, ("a.py", "a.csv", "b/c.csv"), {"a.py"}),
    "a directory": ({"": "data/"}, ("a.py", "data/x", "b/data/y"), {"a.py"}),
    "a directory at the top": ({"": "/data"}, ("data/x", "b/data/y"), {"b/data/y"}),
    "an exception": ({"": "*.csv\n!keep.csv"}, ("a.csv", "keep.csv"), {"keep.csv"}),
    "a further one below": ({"b": "*.csv"}, ("a.csv", "b/c.csv"), {"a.csv"}),
    "an exception below": ({"": "*.csv", "b": "!*.csv"}, ("a.csv", "b/c.csv"), {"b/c.csv"}),
    "no text": ({"": "\udcff\x00"}, ("a.py",), {"a.py"}),
}


def test_rules_without_an_end_are_not_read(tmp_path):
    put(tmp_path, "a.py")
    sparse(tmp_path / ".gitignore")
    with pytest.raises(ValueError, match=r"\.gitignore cannot be understood: it has .* bytes"):
        sent(tmp_path)


@pytest.mark.parametrize(("rules", "there", "goes"), IGNORED.values(), ids=IGNORED)
@pytest.mark.parametrize("name", [".gitignore", ".rayignore"])
def test_what_is_ignored_stays(tmp_path, rules, there, goes, name):
    put(tmp_path, *there)
    for place, text in rules.items():
        (tmp_path / place / name).write_text(text, errors="surrogateescape")
    assert {each for each in sent(tmp_path) if Path(each).name != name} == goes


def test_the_rules_of_the_repository_around_hold_unless_they_are_against_the_directory(tmp_path):
    put(tmp_path, "inner/a.py", "inner/a.csv", "scratch/b.py")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.csv\nscratch/\n")
    assert sent(tmp_path / "inner") == {"a.py"}
    assert sent(tmp_path / "scratch") == {"b.py"}


def test_links_out_of_the_directory_are_not_followed(tmp_path):
    put(tmp_path, "outside/secret", "root/mine.py", "root/pack/net.py", "root/.env")
    root = tmp_path / "root"
    for link, target in {
        "file": "../outside/secret", "folder": "../outside", "absolute": tmp_path / "outside/secret",
        "through": "link", "link": "../outside", "to_a_secret": ".env", "loop": "loop", "nowhere": "missing",
        "up": ".", "pack/up": "..", ".gitignore": "/dev/zero",
        "same": "mine.py", "copy": "pack",
    }.items():  # fmt: skip
        (root / link).symlink_to(target)
    parcel = parcel_of(root)
    assert set(parcel.files) == {"mine.py", "pack/net.py", "same", "copy/net.py"}
    assert "folder (a link)" in parcel.left_out
    assert all(path.resolve().is_relative_to(root) for path in parcel.files.values())


def test_pipes_are_not_read(tmp_path):
    put(tmp_path, "a.py")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / ".gitignore")
    assert sent(tmp_path) == {"a.py"}


def test_the_archive_is_the_same_for_the_same_files_and_keeps_others_from_reading(tmp_path):
    put(tmp_path / "root", "a.py", "run.sh")
    (tmp_path / "root" / "run.sh").chmod(0o755)
    for name, changed_s in ("first.zip", 1e9), ("second.zip", 1.5e9):
        os.utime(tmp_path / "root" / "a.py", (changed_s, changed_s))
        parcel_of(tmp_path / "root").write(tmp_path / name)
    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "first.zip") as archive:
        modes = {info.filename: stat.S_IMODE(info.external_attr >> 16) for info in archive.infolist()}
        assert archive.read("a.py") == b"x"
    assert modes == {"a.py": 0o600, "run.sh": 0o700}


def test_what_goes_is_described_and_a_name_cannot_command_the_terminal(tmp_path):
    put(
        tmp_path,
        *(f"many/{number}" for number in range(30)),
        "\x1b[2Jevil\nleft out: nothing",
        ".env",
        text="x" * 1000,
    )
    said = parcel_of(tmp_path).describe()
    assert said.startswith("31 files, 31.0 kB: many/ (30.0 kB), ")
    assert said.endswith("left out: .env")
    assert "\x1b" not in said
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize("name", ["missing", "file", "empty"])
def test_a_directory_that_cannot_be_sent_is_an_error_with_its_name(tmp_path, name):
    put(tmp_path, "file", "empty/.env")
    with pytest.raises(ValueError, match=f"--working-dir .*{name} (is no directory|holds nothing to send)"):
        parcel_of(tmp_path / name)
