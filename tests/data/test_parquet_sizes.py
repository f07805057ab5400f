"""The memory of a Parquet file's rows is counted from its pages, whatever the footer says."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ttray.data.parquet_sizes import decoded_bytes

ZEROS = pa.table({"x": np.zeros(9000, dtype=np.float32)})


def written(**options):
    buffer = io.BytesIO()
    pq.write_table(ZEROS, buffer, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"data_page_version": "2.0"},
        {"use_dictionary": False},
        {"compression": "zstd"},
        {"row_group_size": 100},
        {"data_page_size": 100, "write_batch_size": 10, "use_dictionary": False},
        {"write_page_index": True, "write_page_checksum": True},
    ],
    ids=str,
)
def test_every_value_counts_however_it_is_written(options):
    found = decoded_bytes(io.BytesIO(written(**options)), [4])
    pages = 40_000 if options.get("use_dictionary") is False else 10_000  # the largest page, and dictionaries
    assert 36_000 <= found <= 36_000 + pages


def varint(number):
    found = []
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def test_a_page_that_holds_more_than_the_footer_says_is_seen():
    content = written()
    few, many = (varint(2 * number) for number in (9000, 1_000_000))  # signed numbers are doubled
    assert len(few) == len(many)
    assert decoded_bytes(io.BytesIO(content.replace(few, many, 1)), [4]) >= 4_000_000


def test_whatever_is_cut_or_flipped_it_is_counted_or_refused():
    content = written(row_group_size=4000)
    refused = 0
    for at in range(len(content)):
        for wrong in (content[:at], content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]):
            try:
                assert decoded_bytes(io.BytesIO(wrong), [4]) >= 0
            except ValueError:
                refused += 1
    assert refused > len(content)
