"""What disks and people do to files."""

import resource
from contextlib import contextmanager

from ttray.runs.checkpoints import damage_of, newest_checkpoint, save_checkpoint


@contextmanager
def no_file_longer_than(size):
    """As on a full disk: a real error of a real write of this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _empty(path):
    path.write_bytes(b"")


def _cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x04
    path.write_bytes(content)


DAMAGES = {"emptied": _empty, "cut": _cut, "flipped": _flip}


def seal(directory, change):
    """Changes the checkpoint of a run, and its manifest with it: so would who means harm."""
    old = newest_checkpoint(directory)
    content = {path.relative_to(old): path.read_bytes() for path in old.rglob("*") if path.is_file()}

    def write(checkpoint):
        for name, each in content.items():
            (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
            (checkpoint / name).write_bytes(each)
        (checkpoint / "manifest.json").unlink()
        change(checkpoint)

    assert damage_of(save_checkpoint(directory, int(old.name), write, keep=1)) is None
