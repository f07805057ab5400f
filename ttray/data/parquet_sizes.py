"""Estimates how much memory the rows of a Parquet file take, from its page headers.

A page of a few bytes may hold a billion equal values, and pyarrow reads whatever it is told to. Its own
reader of footers ends the process if a part is missing, hence this one: of the compact protocol of Thrift,
in which footers and the heads of pages are written, as much as is needed to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

_MAX_NUMBERS, _MAX_DEPTH = 10**6, 16  # of one structure; a footer has a few hundred for a million rows
_MAX_HEAD_BYTES = 2**16  # of a page
_MAX_PAGES = 10**6

# Numbers of fields, as parquet.thrift has them.
_ROW_GROUPS, _CHUNKS, _CHUNK_DATA = 4, 1, 3
_NUM_VALUES, _CHUNK_BYTES, _FIRST_PAGE, _DICTIONARY = 5, 7, 9, 11
_UNCOMPRESSED, _COMPRESSED = 2, 3
_DATA_HEAD, _DICTIONARY_HEAD, _DATA_HEAD_V2, _VALUES_OF_PAGE = 5, 7, 8, 1


def decoded_bytes(file: IO[bytes], value_bytes: Sequence[int]) -> int:
    """Bytes of all values of an open Parquet file, and of its largest page.

    Args:
        file: Of which the whole content is looked at, but for the pages themselves.
        value_bytes: For each column, how much memory a value takes.

    Raises:
        ValueError: It is not written as Parquet files are.
    """
    try:
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, 2)
        footer = _Reader(file.read(length)).struct()
        total = 0
        for group in footer.get(_ROW_GROUPS, []):
            chunks = [chunk[_CHUNK_DATA] for chunk in group[_CHUNKS]]
            total += sum(
                _chunk_bytes(file, chunk, size) for chunk, size in zip(chunks, value_bytes, strict=True)
            )
    except (KeyError, IndexError, TypeError, AttributeError, OSError, OverflowError):
        raise ValueError("its footer or a page is damaged") from None
    return total


def _chunk_bytes(file: IO[bytes], chunk: dict[int, Any], value_bytes: int) -> int:
    """Of a column in a row group, page by page, as far as pyarrow would read."""
    at = chunk[_FIRST_PAGE]
    if 0 < chunk.get(_DICTIONARY, 0) < at:
        at = chunk[_DICTIONARY]
    end = at + chunk[_CHUNK_BYTES]
    seen = total = largest = 0
    for _ in range(_MAX_PAGES):
        if seen >= chunk[_NUM_VALUES] or at >= end:
            return total + largest
        file.seek(at)
        reader = _Reader(file.read(_MAX_HEAD_BYTES))
        head = reader.struct()
        data = head.get(_DATA_HEAD) or head.get(_DATA_HEAD_V2)
        values = (data or head.get(_DICTIONARY_HEAD) or {_VALUES_OF_PAGE: 0})[_VALUES_OF_PAGE]
        if min(values, head[_UNCOMPRESSED], head[_COMPRESSED]) < 0:
            raise ValueError("it claims to have less than nothing")
        seen += values if data else 0
        total += values * value_bytes
        largest = max(largest, head[_UNCOMPRESSED])
        at += reader.at + head[_COMPRESSED]
    raise ValueError(f"a column has more than {_MAX_PAGES:,} pages")


class _Reader:
    """Structures as dictionaries by the numbers of their fields; texts are left out."""

    def __init__(self, content: bytes) -> None:
        self.at = 0
        self._content, self._left = content, _MAX_NUMBERS

    def struct(self, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        self._left -= 1
        if depth > _MAX_DEPTH or self._left < 0:
            raise ValueError("its footer or a page is too large")
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (1, 2, 3):  # of lists; a truth value of a structure is in its head
            return self._byte()
        if kind == 12:
            return self.struct(depth + 1)
        if kind in (9, 10):
            return self._list(depth + 1)
        if kind == 11:
            return self._map(depth + 1)
        length = self._unsigned() if kind == 8 else {7: 8, 13: 16}[kind]
        self.at += length
        return None

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._unsigned()
        return [self._value(head & 15, depth) for _ in range(size)]

    def _map(self, depth: int) -> None:
        size = self._unsigned()
        kinds = self._byte() if size else 0
        for _ in range(size):
            self._value(kinds >> 4, depth)
            self._value(kinds & 15, depth)

    def _byte(self) -> int:
        found = self._content[self.at]
        self.at += 1
        return found

    def _unsigned(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("it has a number of more than 64 bits")
        return found | byte << shift

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)
