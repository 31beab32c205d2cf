"""What tables of a live source look like: its listings, and the binlog that proves from where on they are right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.errors import ServerError, UnknownTableError
from replica_client.rows.selection import Selection
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.testing import BinlogSource
from tests.source.binlogs import BinlogMaker
from tests.source.listed_schema import ListedSchema, add_rows, add_statement


class _Live:
    """A source of one file, and its listings."""

    def __init__(self, path: Path, tables: dict[str, list[str]], mariadb: bool) -> None:
        self.maker, self.listed = BinlogMaker(mariadb=mariadb), ListedSchema(tables)
        self._path, self._sent = path, 0
        self.source: BinlogSource

    async def start(self) -> None:
        self.source = BinlogSource(self.maker.save(self._path / "binlog.000001"))
        self.source.answers = self.listed
        self._sent = len(self.maker.data)
        await self.source.start()

    def send(self) -> None:
        """Let the running source have what was added to the file."""
        new, self._sent = self.maker.data[self._sent :], len(self.maker.data)
        self.source.append(new)

    def listings(self) -> int:
        """How often columns were asked for."""
        return sum("INFORMATION_SCHEMA.COLUMNS" in sql for sql in self.listed.asked)

    def here(self) -> rc.Position:
        return rc.Position("binlog.000001", len(self.maker.data))

    async def rows(self, start: object, **options: object) -> list[dict[str, object]]:
        async with rc.connect(self.source.url, start=start, stop_at_end=True, **options) as stream:
            return [dict(change.after) async for change in stream.changes()]

    async def new_row(self, start: object, **options: object) -> dict[str, object]:
        """Insert (1, 2) into t while a stream runs, and return the row that it gives."""
        soon = rc.ReconnectPolicy(first_delay=0.001, max_delay=0.002, attempts=8)
        options = {"reconnect": soon, **options}
        async with rc.connect(self.source.url, start=start, **options) as stream:
            add_rows(self.maker, "t", (1, 2))
            self.send()
            async with asyncio.timeout(20):
                change = await anext(stream.changes())
            return dict(change.after)


@pytest.fixture
async def live(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[_Live]:
    made = _Live(tmp_path, {"t": ["id", "n"], "u": ["id"]}, getattr(request, "param", False))
    yield made
    await made.source.close()
    made.listed.close()


async def test_a_table_that_is_as_it_was_has_its_names(live: _Live) -> None:
    start = live.here()
    add_rows(live.maker, "t", (1, 2))
    add_rows(live.maker, "t", (3, 4))
    await live.start()
    assert await live.rows(start) == [{"id": 1, "n": 2}, {"id": 3, "n": 4}]
    assert live.listings() == 1


async def test_a_table_that_was_altered_since_is_not_taken_for_what_it_is_now(live: _Live) -> None:
    before = live.here()
    add_rows(live.maker, "t", (1, 2))
    add_statement(live.maker, "ALTER TABLE u ADD x INT")
    between = live.here()
    add_rows(live.maker, "t", (3, 4))
    add_statement(live.maker, "ALTER TABLE t RENAME COLUMN m TO n")
    behind = live.here()
    add_rows(live.maker, "t", (5, 6))
    await live.start()
    assert await live.rows(behind) == [{"id": 5, "n": 6}]
    for start in (before, between):
        with pytest.raises(UnknownTableError, match=r"shop\.t: the names of its columns"):
            await live.rows(start)
    # Of a table that is gone nothing is known either.
    add_rows(live.maker, "gone", (7,))
    live.send()
    with pytest.raises(UnknownTableError, match=r"shop\.gone"):
        await live.rows(behind)


async def test_many_tables_are_asked_for_at_once(live: _Live) -> None:
    names = [f"m{number}" for number in range(12)]
    start = live.here()
    for number, name in enumerate(names):
        live.listed.define(name, [f"c{number}"])
        add_rows(live.maker, name, (number,))
    await live.start()
    options = AssemblyOptions(Selection(["shop.*"]))
    rows = await live.rows(start, assembly=options)
    assert rows == [{f"c{number}": number} for number in range(12)]
    assert live.listings() == 5  # four by themselves


@pytest.mark.parametrize("gtids", [True, False])
async def test_a_start_at_the_end_knows_what_is_there(live: _Live, gtids: bool) -> None:
    """Tables are read anew until none was altered meanwhile, and rows behind them are decoded by what was read."""
    add_statement(live.maker, "CREATE TABLE t (id INT)", anonymous=not gtids)
    # Without GTIDs each try lists them twice: to wait for some of them, too.
    rows_at = 2 if gtids else 4

    def meanwhile(sql: str) -> None:
        if "INFORMATION_SCHEMA.STATISTICS" not in sql or live.listings() not in (1, rows_at):
            return
        if live.listings() == 1:
            live.listed.define("t", ["id", "n", "late"])
            add_statement(live.maker, "ALTER TABLE t ADD late INT", anonymous=not gtids)
        else:
            add_rows(live.maker, "t", (1, 2, 3), anonymous=not gtids)
        live.send()

    live.listed.meanwhile = meanwhile
    await live.start()
    assert await live.rows("latest") == [{"id": 1, "n": 2, "late": 3}]
    assert live.listings() == rows_at
    barriers = [sql for sql in live.listed.asked if sql.startswith("SELECT 1 FROM")]
    # Without GTIDs a statement before the position may not be committed yet: its table is waited for.
    assert set(barriers) == (set() if gtids else {"SELECT 1 FROM `SHOP`.`T` LIMIT 0"})


@pytest.mark.parametrize(("errno", "last"), [(1146, 3), (1205, 2)])
async def test_a_table_that_cannot_be_waited_for(live: _Live, errno: int, last: int) -> None:
    """One that is gone: all is read again. One that is locked for long is asked for when its rows come."""
    add_statement(live.maker, "ALTER TABLE t ADD n INT", anonymous=True)
    failed: list[str] = []

    def meanwhile(sql: str) -> None:
        if sql.startswith("SELECT 1 FROM") and not failed:
            failed.append(sql)
            raise ServerError(errno, "HY000", "not now")
        if "INFORMATION_SCHEMA.STATISTICS" in sql and live.listings() == last:
            add_rows(live.maker, "t", (1, 2), anonymous=True)
            live.send()

    live.listed.meanwhile = meanwhile
    await live.start()
    assert await live.rows("latest") == [{"id": 1, "n": 2}]
    assert failed
    assert live.listings() == 3


@pytest.mark.parametrize("live", [True], indirect=True, ids=["mariadb"])
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_rename_of_a_table_that_is_still_there_was_of_a_temporary_one(
    live: _Live, is_there: bool
) -> None:
    """MariaDB logs both alike."""
    start = live.here()
    add_statement(live.maker, "CREATE TABLE t (a INT, b INT)")
    add_statement(live.maker, "RENAME TABLE t TO v")
    add_rows(live.maker, "t" if is_there else "v", (1, 2))
    if not is_there:
        live.listed.forget("t")
    await live.start()
    assert await live.rows(start) == [{"a": 1, "b": 2}]


@pytest.mark.parametrize(("errno", "asked"), [(1142, 2), (1064, 1)])
async def test_a_source_that_does_not_show_its_tables(live: _Live, errno: int, asked: int) -> None:
    """Names are those of positions where that is wanted; a server that has no such listings is asked once."""

    def refuse(sql: str) -> None:
        raise ServerError(errno, "42000", "not for you")

    live.listed.meanwhile = refuse
    start = live.here()
    add_rows(live.maker, "t", (1, 2))
    add_rows(live.maker, "u", (3,))
    await live.start()
    positional = AssemblyOptions(Selection(), on_unknown_table="positional")
    assert await live.rows(start, assembly=positional) == [{"col_1": 1, "col_2": 2}, {"col_1": 3}]
    assert len(live.listed.asked) == asked
    with pytest.raises(UnknownTableError, match=r"shop\.t"):
        await live.rows(start)
    # A start at the end goes on without them, unless they are wanted.
    assert await live.rows("latest") == []
    with pytest.raises(ServerError, match="not for you"):
        await live.rows("latest", assembly=AssemblyOptions(Selection(), on_unknown_table="error"))


@pytest.mark.parametrize("start", ["latest", "here"])
@pytest.mark.parametrize("errno", [1040, 1053, 1105, 1205, 1969, 3024, 1104, 1030, 1146, 1815])
async def test_a_failure_is_no_answer(
    live: _Live, errno: int, start: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The question is asked again, and the cause is logged; what was not answered is not believed."""
    left = [4]

    def fail(sql: str) -> None:
        if left[0]:
            left[0] -= 1
            raise ServerError(errno, "HY000", "not now")

    live.listed.meanwhile = fail
    here = live.here()
    await live.start()
    assert await live.new_row("latest" if start == "latest" else here) == {"id": 1, "n": 2}
    assert left == [0]
    assert caplog.text.count("not now; again in") == 4


# After an error that passes, the first connect goes on for ever: those come after a start by position only.
@pytest.mark.parametrize(
    ("errno", "start"),
    [
        *((errno, "latest") for errno in (1105, 1104, 1030)),
        *((errno, "here") for errno in (1040, 1105, 1969, 3024, 1104, 1030)),
    ],
)
async def test_a_source_that_never_answers_is_an_error(live: _Live, errno: int, start: str) -> None:
    def fail(sql: str) -> None:
        raise ServerError(errno, "HY000", "not now")

    live.listed.meanwhile = fail
    here = live.here()
    await live.start()
    with pytest.raises(ServerError, match="not now"):
        await live.new_row("latest" if start == "latest" else here)


@pytest.mark.parametrize("start", ["latest", "here"])
@pytest.mark.parametrize("errno", [1044, 1142, 1143, 1227, 1370, 1064, 1047, 1235])
async def test_a_refusal_by_privilege_is_an_answer(live: _Live, errno: int, start: str) -> None:
    """Nothing can be known then: rows are refused, and named by position only where that is wanted."""

    def refuse(sql: str) -> None:
        raise ServerError(errno, "42000", "not for you")

    live.listed.meanwhile = refuse
    here = live.here()
    await live.start()
    begin = "latest" if start == "latest" else here
    with pytest.raises(UnknownTableError, match=r"shop\.t: .*SELECT"):
        await live.new_row(begin)
    # A table that is granted after a start at the end is asked for; a server without a catalogue is asked once.
    asked_again = start == "latest" and errno not in (1064, 1047, 1235)
    assert len(live.listed.asked) == 1 + asked_again
    positional = AssemblyOptions(Selection(), on_unknown_table="positional")
    assert await live.new_row(begin, assembly=positional) == {"col_1": 1, "col_2": 2}


async def test_a_table_that_is_listed_without_columns_is_not_known(live: _Live) -> None:
    """A server lists a table so that it cannot open; that it has others of the database is not believed either."""
    live.listed.forget_columns("t")
    await live.start()
    with pytest.raises(UnknownTableError, match=r"shop\.t"):
        await live.new_row("latest")


@pytest.mark.parametrize("live", [True], indirect=True, ids=["mariadb"])
@pytest.mark.parametrize("altered", [True, False])
async def test_a_rename_where_nothing_is_certain_is_of_the_table(
    live: _Live, altered: bool
) -> None:
    """The source does not tell, or a table of the old name was made since."""
    start = live.here()
    add_statement(live.maker, "CREATE TABLE t (a INT, b INT)")
    add_statement(live.maker, "RENAME TABLE t TO v")
    add_rows(live.maker, "v", (1, 2))

    def refuse(sql: str) -> None:
        raise ServerError(1142, "42000", "not for you")

    if altered:
        add_statement(live.maker, "CREATE TABLE t (id INT, n INT)")
    else:
        live.listed.meanwhile = refuse
    await live.start()
    assert await live.rows(start) == [{"a": 1, "b": 2}]
