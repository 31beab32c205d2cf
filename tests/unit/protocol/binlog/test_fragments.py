"""Rows events in fragments (MariaDB 12.3): joined they are the rows event, and what is missing is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.cli.main import main
from replica_client.errors import BinlogDecodeError, LimitExceededError, ReplicaClientError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import cut_rows
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.events import (
    FormatDescriptionEvent,
    HeartbeatEvent,
    RowsEvent,
    RowsFragmentEvent,
    StopEvent,
    TableMapEvent,
)
from replica_client.protocol.constants.event_types import EventType
from replica_client.rows.json_values import change_to_json
from replica_client.testing import BinlogSource
from tests.mariadb_fragments import fragmented
from tests.unit.protocol.binlog.events.seed import CRC32, whole_event

GOLDEN = Path(__file__).parents[3] / "golden"
FILES = [
    GOLDEN / "mariadb-11.8.6" / f"{name}.binlog"
    for name in "rows compressed_events no_checksum several_engines generated_values xa".split()
]
T = EventType
TABLE = whole_event(
    T.TABLE_MAP_EVENT, TableMapEvent(90, 1, "d", "t", b"\x03", (0,), b"\0").encode(), CRC32
)
ROWS = RowsEvent("insert", 23, 90, 1, b"", 1, b"\xff", None, b"\xfe\1\0\0\0" * 20)
PLAIN = whole_event(T.WRITE_ROWS_EVENT_V1, ROWS.encode())
PARTS = list(cut_rows(PLAIN, 50))


def fed(events: list[tuple[int, Any, str]], **options: Any) -> list[BinlogEvent]:
    """Return the joined events of some bodies."""
    decoder = BinlogDecoder(DecodeOptions(**options), format=CRC32)
    decoder.decode(TABLE, 4, "a")

    def joined() -> Iterator[BinlogEvent]:
        for code, body, file in events:
            event = decoder.decode(whole_event(code, body.encode(), CRC32), 100, file)
            yield from decoder.inner_events(event)

    return list(joined())


def fragments(*parts: RowsFragmentEvent, file: str = "a") -> list[tuple[int, Any, str]]:
    return [(T.PARTIAL_ROW_DATA_EVENT, part, file) for part in parts]


@pytest.mark.parametrize("size", (1, 19, 50, len(PLAIN) - 1, len(PLAIN), len(PLAIN) + 1))
@pytest.mark.parametrize("with_checksum", (False, True))
def test_joined_fragments_are_the_rows_event(size: int, with_checksum: bool) -> None:
    rows = whole_event(T.WRITE_ROWS_EVENT_V1, ROWS.encode(), CRC32) if with_checksum else PLAIN
    (event,) = fed(fragments(*cut_rows(rows, size)))
    assert (event.body, event.position, event.file, event.inner_index) == (ROWS, 100, "a", 0)


def test_a_heartbeat_may_come_between_fragments() -> None:
    beat = (T.HEARTBEAT_LOG_EVENT, HeartbeatEvent("binlog.000001"), "a")
    parts = fragments(*PARTS)
    assert [event.body for event in fed([parts[0], beat, *parts[1:]])] == [ROWS]


def test_a_server_that_stopped_in_between_never_writes_the_others() -> None:
    restart = (T.FORMAT_DESCRIPTION_EVENT, FormatDescriptionEvent(create_timestamp=1), "b")
    decoder = BinlogDecoder(format=CRC32)
    for code, body, file in [*fragments(PARTS[0]), restart]:
        decoder.decode(whole_event(code, body.encode(), CRC32), 4, file)


A, B, C = PARTS[:3]
assert len(PARTS) == 3


def other(part: RowsFragmentEvent, **fields: Any) -> RowsFragmentEvent:
    names = ("fragment_count", "fragment_number", "flags", "rows_event_size", "fragment")
    return RowsFragmentEvent(*(fields.get(name, getattr(part, name)) for name in names))


BROKEN = {
    "missing in the middle": (fragments(A, C), "fragment 3 of 3 .* comes after fragment 1"),
    "missing at the start": (fragments(B), "comes without those before it"),
    "missing at the end": (
        [*fragments(A, B), (T.STOP_EVENT, StopEvent(), "a")],
        "STOP_EVENT comes",
    ),
    "repeated": (fragments(A, B, B), "come twice"),
    "begins again": (fragments(A, A), "come twice"),
    "of another event": (fragments(A, other(B, fragment_count=4)), "fragment 2 of 4"),
    "another event": ([*fragments(A), (T.STOP_EVENT, StopEvent(), "a")], "fragments are missing"),
    "another file": ([*fragments(A), *fragments(B, file="b")], "another file"),
    "too short": (fragments(A, B, other(C, fragment=b"")), "were announced"),
    "too long": (fragments(A, B, other(C, fragment=b"x" * 99)), "were announced"),
    "no size": (fragments(other(A, flags=0, rows_event_size=None)), "has flags 0x0"),
    "size again": (fragments(A, other(B, flags=1, rows_event_size=5)), "has flags 0x1"),
    "number 0": (fragments(other(A, fragment_number=0)), "fragment 0 of 3"),
    "number too high": (fragments(other(A, fragment_number=4)), "fragment 4 of 3"),
    "no rows event": (
        fragments(RowsFragmentEvent(1, 1, 1, len(TABLE), TABLE)),
        "TABLE_MAP_EVENT, no rows event",
    ),
    "no event": (fragments(RowsFragmentEvent(1, 1, 1, 3, b"abc")), "3 bytes are no rows event"),
    "another size inside": (
        fragments(RowsFragmentEvent(1, 1, 1, len(PLAIN) + 1, PLAIN + b"x")),
        "their header says",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_fragments_are_named(name: str) -> None:
    events, reason = BROKEN[name]
    with pytest.raises(BinlogDecodeError, match=reason) as raised:
        fed(events)
    assert raised.value.position == 100


def test_joined_size_is_limited_before_memory_is_taken() -> None:
    with pytest.raises(LimitExceededError, match="max_event_size"):
        fed(fragments(other(A, rows_event_size=1 << 40)))
    with pytest.raises(LimitExceededError, match="max_event_size"):
        fed(fragments(*PARTS), max_event_size=100)


def seen(path: Path) -> tuple[Any, ...]:
    """Return what the readers give of a file, without positions."""
    changes = [
        (one.kind, one.database, one.table, repr(one.before), repr(one.after), one.gtid)
        for one in rc.open_binlog(path, on_statement="deliver").changes()
    ]
    transactions = [
        (one.gtid, len(list(one.changes)))
        for one in rc.open_binlog(path, on_statement="deliver").transactions()
    ]
    batches = [
        [tuple(row.items())[8:] for row in batch.to_pylist()]
        for batch in rc.open_binlog(path, on_statement="deliver").batches()
    ]
    return changes, transactions, batches


@pytest.mark.parametrize("size", (20, 40))
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_files_with_fragments_have_the_same_rows(
    path: Path, size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / path.name
    made.write_bytes(fragmented(path.read_bytes(), size, with_checksum=size == 40))
    try:
        expected = seen(path)
    except ReplicaClientError:
        pytest.skip("not read to its end")
    assert seen(made) == expected
    assert main(["check", str(made)]) == 0
    assert "PARTIAL_ROW_DATA_EVENT" in capsys.readouterr().out or not expected[0]
    assert main(["annotate", str(made)]) == 0


@pytest.mark.parametrize("part_size", (1 << 20, 1))
async def test_a_live_source_with_fragments(part_size: int, tmp_path: Path) -> None:
    """Each run takes a transaction, acknowledges it, and is left; nothing is lost or comes twice."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "binlog.000001").write_bytes(fragmented(FILES[0].read_bytes(), 20))
    whole = [change_to_json(one) for one in rc.open_binlog(data).changes()]
    count = sum(1 for _ in rc.open_binlog(data).transactions())
    assembly = rc.AssemblyOptions(
        rc.Selection(), part_size=part_size, on_unknown_table="positional"
    )
    given: list[str] = []
    async with BinlogSource(data) as source:
        start: Any = "earliest"
        for _ in range(count):
            async with rc.connect(
                source.url, start=start, stop_at_end=True, assembly=assembly
            ) as stream:
                async for transaction in stream.transactions():
                    given += map(change_to_json, transaction.changes)
                    break
                start = stream.position
    assert whole
    assert given == whole
