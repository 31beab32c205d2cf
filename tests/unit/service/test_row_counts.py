"""Rows counted and left out by their images."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

from replica_client import open_binlog
from replica_client.errors import DataLossError
from replica_client.service.table_checker import RowCounter, without
from tests.unit.service.conftest import DATA

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = [
    *sorted(DATA.glob("shop-bin.*")),
    GOLDEN / "mariadb-11.8.6" / "compressed_events.binlog",
    GOLDEN / "mariadb-11.8.6" / "rows.binlog",
    *sorted((GOLDEN / "mysql-9.7.4").glob("*json*.binlog")),
    GOLDEN / "mysql-5.6.24" / "rows.binlog",
]


def events():
    for path in FILES:
        # The compressed one has statements too, behind its rows.
        with contextlib.suppress(DataLossError):
            for transaction in open_binlog(path).transactions():
                yield from transaction.rows


def test_rows_are_counted():
    counter = RowCounter()
    found = list(events())
    assert [counter.count(rows) for rows in found] == [len(list(rows)) for rows in found]


def test_rows_are_left_out_and_the_others_keep_their_index():
    chance = random.Random(1)
    for rows in events():
        changes = list(rows)
        for _ in range(4):
            left_out = {
                one.row_index for one in changes if chance.random() < chance.choice((0.2, 0.7, 1))
            }
            parts = list(without(rows, left_out))
            assert [change for part in parts for change in part] == [
                change for change in changes if change.row_index not in left_out
            ]
            # The same for those that read the images themselves.
            seen = []
            for part in parts:
                pairs = list(part.decoder.iter_event(part.event))
                seen += [(at, pair) for at, pair in enumerate(pairs) if at >= part.first_row]
            pairs = list(rows.decoder.iter_event(rows.event))
            assert seen == [(at, pair) for at, pair in enumerate(pairs) if at not in left_out]


def test_the_files_have_what_is_meant():
    codes = {rows.event.header.type_code for rows in events()}
    assert codes >= {23, 30, 31, 32, 39, 166}, codes


def test_none_left_out_is_the_event_itself():
    for rows in events():
        assert list(without(rows, ())) == [rows]
