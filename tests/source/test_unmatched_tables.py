"""Patterns of tables that match nothing: an error after a finite read, a warning before an endless one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.errors import ConfigError, ServerError
from replica_client.testing import BinlogSource
from tests.source.binlogs import BinlogMaker
from tests.source.listed_schema import ListedSchema, add_rows, add_statement

MISTYPED = r"no table shop\.ordrs was read; did you mean shop\.orders\?; allow_empty=True takes"


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[BinlogSource]:
    """A source whose binlog has rows of ``orders``, and a table ``quiet`` without rows."""
    maker, listed = BinlogMaker(), ListedSchema({"orders": ["id", "n"], "quiet": ["id"]})
    add_statement(maker, "CREATE TABLE orders (id INT, n INT)")
    add_rows(maker, "orders", (1, 2))
    made = BinlogSource(maker.save(tmp_path / "binlog.000001"))
    made.answers = listed
    async with made:
        yield made
        await asyncio.sleep(0.05)  # connections that were just closed
    listed.close()


async def _count(source: BinlogSource, tables: object, how: str, **options: object) -> int:
    options = {"start": "earliest", "stop_at_end": True, **options}
    async with rc.connect(source.url, tables=tables, **options) as stream:  # type: ignore[arg-type]
        found = [one async for one in getattr(stream, how)()]
        return sum(len(one.changes) for one in found) if how == "transactions" else len(found)


@pytest.mark.parametrize("how", ["changes", "transactions", "batches"])
async def test_a_finite_read(source: BinlogSource, how: str) -> None:
    with pytest.raises(ConfigError, match=MISTYPED):
        await _count(source, ["shop.orders", "shop.ordrs"], how)
    assert await _count(source, "shop.ordrs", how, allow_empty=True) == 0
    assert await _count(source, "shop.orders", how) == 1
    # The source lists a table of which nothing was read.
    assert await _count(source, ["shop.orders", "shop.quiet"], how) == 1


async def test_events_have_no_wanted_tables(source: BinlogSource) -> None:
    assert await _count(source, "shop.ordrs", "events") > 2


async def test_a_run_that_goes_on_may_find_nothing_more(
    source: BinlogSource, tmp_path: Path
) -> None:
    store = tmp_path / "position"
    assert await _count(source, "shop.*", "changes", position_store=store) == 1
    assert await _count(source, "shop.ordrs", "changes", position_store=store) == 0


@pytest.mark.parametrize("errno", [1142, 1064])
async def test_a_source_that_does_not_list_its_tables(source: BinlogSource, errno: int) -> None:
    def refuse(sql: str) -> None:
        raise ServerError(errno, "42000", "not for you")

    source.answers.meanwhile = refuse  # type: ignore[attr-defined]
    end = rc.Position("binlog.000001", source.library.files[-1].size)
    # What was not read may be elsewhere in the binlog; a whole read has no other place.
    assert await _count(source, "shop.ordrs", "changes", start=end) == 0
    with pytest.raises(ConfigError, match=MISTYPED):
        await _count(source, "shop.ordrs", "changes")


@pytest.mark.parametrize(
    ("tables", "options", "warned"),
    [
        ("shop.ordrs", {}, True),
        (["shop.orders", "nosuch.*"], {}, True),
        ("shop.orders", {}, False),
        ("shop.*", {}, False),
        ("shop.ordrs", {"allow_empty": True}, False),
        # The tables of another moment are not known at the start.
        ("shop.ordrs", {"start": "earliest"}, False),
    ],
    ids=str,
)
async def test_an_endless_read(
    source: BinlogSource,
    tables: object,
    options: dict[str, object],
    warned: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with rc.connect(source.url, tables=tables, **{"start": "latest", **options}):  # type: ignore[arg-type]
        pass
    assert ("the stream waits for it" in caplog.text) == warned
    assert ("did you mean shop.orders?" in caplog.text) == (warned and tables == "shop.ordrs")


async def test_scans(source: BinlogSource, tmp_path: Path) -> None:
    for given in (tmp_path / "binlog.000001", source.url):
        with pytest.raises(ConfigError, match=MISTYPED):
            await asyncio.to_thread(len, rc.scan_binlog(given, tables="shop.ordrs"))
        empty = rc.scan_binlog(given, tables="shop.ordrs", allow_empty=True)
        assert await asyncio.to_thread(list, empty) == []
        assert await asyncio.to_thread(list, rc.scan_binlog(given, tables="shop.*")) == [
            "shop.orders"
        ]
    # The source lists a table without rows; no file knows it.
    assert await asyncio.to_thread(len, rc.scan_binlog(source.url, tables="shop.quiet")) == 0
