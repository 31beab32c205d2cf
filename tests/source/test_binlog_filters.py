"""Binlog filters of the source: what is refused, what is a warning, and whose word is taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.errors import ConfigError, ServerError
from replica_client.rows.selection import Selection
from replica_client.server.understood_sql import Rows
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutInFile
from tests.source.binlogs import BinlogMaker
from tests.source.listed_schema import ListedSchema, add_rows

STATUS = ("File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set")


class _Answers(ListedSchema):
    """Listings, with filters in the binlog status; an error number in place of the status."""

    def __init__(self, do: str, ignored: str, metadata: str, errno: int) -> None:
        super().__init__({"t": ["id", "n"]})
        self.do, self.ignored, self.metadata, self.errno = do, ignored, metadata, errno
        self.end: tuple[str, int] = ("", 0)

    def get(self, sql: str, default: object = None) -> Rows | None:  # type: ignore[override]
        if sql in ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"):
            if self.errno:
                raise ServerError(self.errno, "HY000", "not for you")
            return STATUS, [(*self.end, self.do, self.ignored, "")]
        if sql == "SHOW GLOBAL VARIABLES LIKE 'BINLOG_ROW_METADATA'":
            rows: list[tuple[str, ...]] = [("binlog_row_metadata", self.metadata)]
            return ("Variable_name", "Value"), rows if self.metadata else []
        return super().get(sql, default)


class _Source:
    def __init__(self, path: Path, given: Mapping[str, object]) -> None:
        self.answers = _Answers(
            str(given.get("do", "")),
            str(given.get("ignored", "")),
            str(given.get("metadata", "MINIMAL")),
            int(str(given.get("errno", 0))),
        )
        maker = BinlogMaker()
        self.start = rc.Position("binlog.000001", len(maker.data))
        add_rows(maker, "t", (1, 2))
        self.source = BinlogSource(maker.save(path / "binlog.000001"), answers=None)
        self.answers.end = ("binlog.000001", len(maker.data))
        self.source.answers = self.answers

    async def rows(self, **options: object) -> list[tuple[object, ...]]:
        async with rc.connect(
            self.source.url, start=self.start, stop_at_end=True, attempts=0, **options
        ) as stream:
            return [tuple(change.after) async for change in stream.changes()]


@pytest.fixture
async def source(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[_Source]:
    made = _Source(tmp_path, request.param)
    await made.source.start()
    yield made
    await made.source.close()
    made.answers.close()


REFUSED = "it leaves out a statement that alters a wanted table"


@pytest.mark.parametrize(
    ("source", "tables"),
    [
        ({"do": "shop"}, None),
        ({"do": "shop"}, "shop.*"),
        ({"do": "SHOP"}, "shop.*"),
        ({"do": "other,shop"}, "shop.t"),
        ({"do": "other"}, None),
        ({"ignored": "other"}, None),
        ({"ignored": "other"}, "shop.t"),
        ({"do": "shop", "metadata": ""}, "shop.t"),
        ({"do": "shop", "metadata": "NO_LOG"}, "shop.t"),
    ],
    indirect=["source"],
    ids=str,
)
async def test_rows_are_refused_where_a_statement_may_be_hidden(
    source: _Source, tables: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    answers = source.answers
    filters = f"binlog_{'do' if answers.do else 'ignore'}_db"
    with pytest.raises(ConfigError, match=rf"logs .* \({filters}\): {REFUSED}"):
        await source.rows(tables=tables)
    # Users who accept tables that are not proven get a warning; those who accept another loss do not.
    selection = Selection(tables)
    for options in ({"on_unknown_table": "positional"}, {"record_losses": ["unknown_table"]}):
        caplog.clear()
        assert await source.rows(assembly=AssemblyOptions(selection, **options)) == [(1, 2)]
        assert REFUSED in caplog.text
    with pytest.raises(ConfigError, match=REFUSED):
        await source.rows(assembly=AssemblyOptions(selection, record_losses=["statement"]))


@pytest.mark.parametrize("source", [{"do": "shop"}], indirect=True)
async def test_events_need_no_definitions(source: _Source) -> None:
    async with rc.connect(source.source.url, start=source.start, stop_at_end=True) as stream:
        assert [event async for event in stream.events()]


@pytest.mark.parametrize(
    ("source", "tables", "warning"),
    [
        ({}, None, ""),
        ({}, "shop.t", ""),
        # The filter lets no wanted table through.
        ({"do": "other"}, "shop.t", "changes of other databases are never seen"),
        # Table maps describe their rows.
        ({"do": "shop", "metadata": "FULL"}, "shop.t", "changes of others are never seen"),
        ({"do": "shop", "metadata": "full"}, None, "changes of others are never seen"),
        ({"ignored": "x", "metadata": "FULL"}, None, r"no database x (binlog_ignore_db)"),
        # The source does not say; a server of files has no filters.
        ({"errno": 1227}, None, "whether binlog filters hide statements is not known"),
        ({"errno": 1064}, None, ""),
        ({"errno": 1235}, None, ""),
    ],
    indirect=["source"],
    ids=str,
)
async def test_rows_are_read(
    source: _Source, tables: str | None, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await source.rows(tables=tables) == [(1, 2)]
    if warning:
        assert warning in caplog.text
    else:
        assert "filters" not in caplog.text
        assert "never seen" not in caplog.text
        assert "logs" not in caplog.text


@pytest.mark.parametrize("source", [{"errno": 1105}], indirect=True)
async def test_a_failure_is_no_answer(source: _Source) -> None:
    with pytest.raises(ServerError, match="not for you"):
        await source.rows()


@pytest.mark.parametrize("source", [{}], indirect=True)
async def test_filters_of_a_source_that_was_restarted_with_them(source: _Source) -> None:
    """Rows are read already: the connection after the restart is refused at once."""
    source.source.faults.append(CutInFile("binlog.000001", source.start.offset + 40))
    soon = rc.ReconnectPolicy(first_delay=0.001, max_delay=0.002, attempts=3)
    async with rc.connect(source.source.url, start=source.start, reconnect=soon) as stream:
        changes = stream.changes()
        source.answers.do = "shop"
        with pytest.raises(ConfigError, match=REFUSED):
            async for _ in changes:
                pass
