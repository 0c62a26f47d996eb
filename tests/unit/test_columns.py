from __future__ import annotations

import sys
from array import array

import pytest

from loadtest.columns import CONNECTION_COLUMNS, REQUEST_COLUMNS, Block, empty, pack, rows, unpack

LAYOUTS = [REQUEST_COLUMNS, CONNECTION_COLUMNS]


def filled(layout: tuple[tuple[str, str], ...], count: int) -> dict[str, array[int]]:
    return {name: array(code, (number % 200 for number in range(at, at + count))) for at, (name, code) in enumerate(layout)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_columns_come_back_as_they_were_packed(layout: tuple[tuple[str, str], ...], count: int) -> None:
    columns = filled(layout, count)
    assert unpack(pack(columns, layout), count, layout) == columns


def test_rows_are_little_endian_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = (("seq", "q"), ("port", "H"))
    columns = {"seq": array("q", [1]), "port": array("H", [0x1234])}
    data = pack(columns, layout)
    assert data == b"\x01" + b"\x00" * 7 + b"\x34\x12"
    monkeypatch.setattr(sys, "byteorder", "big" if sys.byteorder == "little" else "little")
    assert pack(unpack(data, 1, layout), layout) == data
    assert pack(columns, layout) != data


def test_a_block_that_is_too_short_or_too_long_is_refused() -> None:
    data = pack(filled(REQUEST_COLUMNS, 3), REQUEST_COLUMNS)
    for torn, count in ((data[:-1], 3), (data + b"\x00", 3), (data, 2), (data, 4), (b"", 1)):
        with pytest.raises(ValueError, match=r"ends early|too many|not a multiple"):
            unpack(torn, count, REQUEST_COLUMNS)


def test_a_column_of_another_type_is_refused() -> None:
    columns = {**filled(REQUEST_COLUMNS, 1), "port": array("q", [1])}
    with pytest.raises(ValueError, match="column port has type q, expected H"):
        pack(columns, REQUEST_COLUMNS)


def test_the_sizes_of_the_types_are_those_of_the_format() -> None:
    assert [array(code).itemsize for code in "BHIq"] == [1, 2, 4, 8]


def test_a_block_knows_its_length_and_gives_rows() -> None:
    block = Block(worker=0, columns={"a": array("q", [1, 2]), "b": array("q", [3, 4])})
    assert len(block) == 2
    assert list(rows(block, "b", "a")) == [(3, 1), (4, 2)]
    assert len(Block(worker=0, columns={})) == 0
    assert all(len(column) == 0 for column in empty(REQUEST_COLUMNS).values())
