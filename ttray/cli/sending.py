"""What `ttray submit --working-dir` sends: no secrets, no ignored files, nothing outside the directory."""

from __future__ import annotations

import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pathspec import GitIgnoreSpec
from rich.filesize import decimal

from ttray.boundary.files import MAX_TEXT_BYTES, read_bytes
from ttray.boundary.printable import printable

# Whatever a .gitignore says: results, which are large, and what usually holds secrets.
NEVER_SENT = (
    *("/runs/", ".git", ".hg", ".svn", ".venv", "venv/", "__pycache__/"),
    *(".env*", "*.env", ".netrc", "_netrc", ".pgpass", ".pypirc", ".npmrc", ".git-credentials", ".*_history"),
    *(".ssh", ".aws", ".azure", ".gcloud", "gcloud/", ".kube", ".docker", ".gnupg", ".ray", ".vault-token"),
    *("credentials", "credentials.*", "*credentials.json", "secrets", "secrets.*", ".secrets"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.tfstate"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
)
_IGNORE_FILES = (".gitignore", ".rayignore")  # the later one is heeded if they disagree
_MOST_NAMED = 8


@dataclass(frozen=True)
class Parcel:
    """What is sent of a directory.

    Attributes:
        files: Those that go, by the name that they get.
        left_out: Names of files, directories and links that do not.
    """

    files: Mapping[str, Path]
    left_out: Sequence[str]

    @property
    def num_bytes(self) -> int:
        """Of all files together."""
        return sum(path.stat().st_size for path in self.files.values())

    def describe(self) -> str:
        """What goes and how much, and what stays, in two lines."""
        sizes: Counter[str] = Counter()
        for name, path in self.files.items():
            top, _, below = name.partition("/")
            sizes[f"{top}/" if below else top] += path.stat().st_size
        largest = [f"{name} ({decimal(size)})" for name, size in sizes.most_common()]
        files = "1 file" if len(self.files) == 1 else f"{len(self.files)} files"
        lines = [f"{files}, {decimal(self.num_bytes)}: {_few(largest)}"]
        if self.left_out:
            lines.append(f"left out: {_few(self.left_out)}")
        return "\n".join(lines)

    def write(self, archive: Path) -> None:
        """Writes a ZIP file that unpacks to files which only their owner can read; equal if they are."""
        with ZipFile(archive, "w") as file:
            for name, path in self.files.items():
                info = ZipInfo(name)  # of 1980, whenever it was changed
                info.compress_type = ZIP_DEFLATED
                mode = stat.S_IRWXU if os.access(path, os.X_OK) else stat.S_IRUSR | stat.S_IWUSR
                info.external_attr = (stat.S_IFREG | mode) << 16
                with path.open("rb") as source, file.open(info, "w") as target:
                    shutil.copyfileobj(source, target)


def _few(names: Sequence[str]) -> str:
    shown = [printable(name).replace("\n", "\\n") for name in names[:_MOST_NAMED]]  # a name is one line
    others = len(names) - len(shown)
    return ", ".join(shown) + (f" and {others} more" if others else "")


def parcel_of(directory: Path) -> Parcel:
    """Chooses what is sent of a directory.

    Left out are `NEVER_SENT`, what a .gitignore or .rayignore names, pipes and the like, and links to what is
    not sent itself, such as files outside of the directory.

    Raises:
        ValueError: There is no such directory, or nothing in it to send.
    """
    if not directory.is_dir():
        raise ValueError(f"--working-dir {directory} is no directory")
    root = directory.resolve()
    walk = _Walk(root)
    walk.visit(root, _rules_above(root))
    walk.copy_links()
    if not walk.files:
        raise ValueError(f"--working-dir {directory} holds nothing to send; left out: {_few(walk.left_out)}")
    return Parcel(dict(sorted(walk.files.items())), sorted(walk.left_out))


@dataclass(frozen=True)
class _Rules:
    """A file of patterns, which holds for what is below its directory."""

    place: Path
    patterns: GitIgnoreSpec

    def say(self, path: Path, is_directory: bool) -> bool | None:
        """Whether a path is left out; None if no pattern is about it."""
        name = path.relative_to(self.place).as_posix()
        return self.patterns.check_file(f"{name}/" if is_directory else name).include


@dataclass
class _Walk:
    root: Path
    files: dict[str, Path] = field(default_factory=dict)
    links: list[Path] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._never = _Rules(self.root, GitIgnoreSpec.from_lines(NEVER_SENT))

    def visit(self, folder: Path, rules: tuple[_Rules, ...]) -> None:
        """Takes up what is in a folder."""
        rules = (*rules, *_rules_of(folder))
        for entry in os.scandir(folder):
            path, is_directory = Path(entry.path), entry.is_dir(follow_symlinks=False)
            name = path.relative_to(self.root).as_posix()
            if self._never.say(path, is_directory) or _is_ignored(path, is_directory, rules):
                self.left_out.append(f"{name}/" if is_directory else name)
            elif is_directory:
                self.visit(path, rules)
            elif entry.is_symlink():
                self.links.append(path)
            elif entry.is_file():
                self.files[name] = path
            else:
                self.left_out.append(name)

    def copy_links(self) -> None:
        """Adds, under the name of a link, the files that go anyway and that it leads to."""
        going = list(self.files.values())
        for link in self.links:
            target = Path(os.path.realpath(link))  # which knows what to do with a loop
            name = PurePosixPath(link.relative_to(self.root).as_posix())
            copies = {
                (name / path.relative_to(target).as_posix()).as_posix(): path
                for path in going
                if path.is_relative_to(target) and not link.is_relative_to(target)
            }
            self.files |= copies
            if not copies:
                self.left_out.append(f"{name} (a link)")


def _is_ignored(path: Path, is_directory: bool, rules: tuple[_Rules, ...]) -> bool:
    """As git decides: the innermost file of patterns that says anything."""
    answers = (each.say(path, is_directory) for each in reversed(rules))
    return next((answer for answer in answers if answer is not None), False)


def _rules_of(folder: Path) -> Iterator[_Rules]:
    for name in _IGNORE_FILES:
        path = folder / name
        if path.is_file() and not path.is_symlink():
            try:
                patterns = read_bytes(path, MAX_TEXT_BYTES).decode(errors="replace")
                yield _Rules(folder, GitIgnoreSpec.from_lines(patterns.splitlines()))
            except ValueError as problem:
                raise ValueError(f"{path} cannot be understood: {problem}") from None


def _rules_above(root: Path) -> tuple[_Rules, ...]:
    """Those of the repository that a directory is in, unless they are against the directory itself."""
    repository = next((each for each in (root, *root.parents) if (each / ".git").exists()), root)
    above = [each for each in reversed(root.parents) if each.is_relative_to(repository)]
    rules = tuple(rule for folder in above for rule in _rules_of(folder))
    return () if _is_ignored(root, True, rules) else rules
