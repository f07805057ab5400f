"""What disks and people do to files."""

import resource
from contextlib import contextmanager


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
