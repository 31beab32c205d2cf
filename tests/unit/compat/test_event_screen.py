"""Events that are passed over or made without decoding: the same as if every one were decoded."""

import pytest

from replica_client.compat.event_screen import state_of
from replica_client.compat.pymysqlreplication.binlogstream import BinLogStreamReader
from replica_client.compat.pymysqlreplication.constants.BINLOG import (
    FORMAT_DESCRIPTION_EVENT,
    ROTATE_EVENT,
    TABLE_MAP_EVENT,
)
from replica_client.compat.pymysqlreplication.event import BinLogEvent, QueryEvent, XidEvent
from replica_client.compat.pymysqlreplication.json_binary import JsonDiff
from replica_client.compat.pymysqlreplication.row_event import (
    DeleteRowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)
from replica_client.errors import ChecksumMismatchError
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.stream.transport.server_statements import ServerInfo
from tests.golden.test_server_files import FILES

STREAMS = [path for path in FILES if "encrypted" not in path.stem]
ROWS = [WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent]
HEADER = ("timestamp", "event_type", "server_id", "event_size", "log_pos", "flags", "read_bytes")


def _name(path):
    return f"{path.parent.name}-{path.stem}"


def _twice(path):
    """A file's events up to the one that names the next file, and all but the first once more."""
    data, events, at = path.read_bytes(), [], 4
    while at < len(data) and data[at + 4] != ROTATE_EVENT:
        end = at + int.from_bytes(data[at + 9 : at + 13], "little")
        events.append(data[at:end])
        at = end
    return data[:4] + b"".join(events + events[1:])


def _reader(**arguments):
    reader = BinLogStreamReader({}, 1, log_file="a.000001", log_pos=4, **arguments)
    reader.begin(ServerInfo(ServerFlavor.MYSQL, (9, 7, 0), "9.7.0", 1))
    return reader


def _events(reader, data, screened=True):
    """Each event, and what the reader knows behind it."""
    queue = EventQueue()
    queue.put(data[4:])
    while queue.uncut:
        queue.cut(int.from_bytes(queue.peek(9, 4), "little"))
    found = []
    while len(queue) or reader._inner is not None:
        event = None
        if reader._inner is not None:
            event = reader._next_inner()
        else:
            if screened:
                event = reader._screened(queue)
            if event is None and len(queue):
                event = reader._event_of(queue.take())
        if event is not None:
            found.append((event, reader.log_pos, reader._group_start, reader._unplaced))
    return found


def _contents(event):
    fields = {
        name: value
        for name, value in vars(event).items()
        if name not in ("packet", "table_map", "_facts", "_rows", "table_obj")
        and name
        not in (
            "_data",
            "_images",
            "_end",
            "_context",
            "_is_loaded",
            "_status_vars",
            "optional_metadata",
            "columns",
        )
    }
    rows = event.rows if isinstance(event, tuple(ROWS)) else None
    packet = {name: getattr(event.packet, name) for name in HEADER}
    return (
        type(event),
        _plain(fields),
        _plain(rows),
        packet,
        event._is_event_valid,
        event.packet._event.body,
    )


def _plain(value):
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (BinLogEvent, JsonDiff)):
        return type(value), _plain({n: v for n, v in vars(value).items() if n != "packet"})
    return value


@pytest.mark.parametrize(
    "wanted", [ROWS, [*ROWS, QueryEvent, XidEvent], [*ROWS, TableMapEvent], [UpdateRowsEvent], None]
)
@pytest.mark.parametrize("path", STREAMS, ids=_name)
def test_the_same_events_and_positions_as_without_it(path, wanted):
    data = _twice(path)
    tables = {"ignored_tables": ["t"]} if wanted == [UpdateRowsEvent] else {}
    plain = _events(_reader(only_events=wanted, **tables), data, screened=False)
    screened = _events(_reader(only_events=wanted, **tables), data)
    assert len(screened) == len(plain)
    if any(isinstance(event, tuple(ROWS)) for event, *_ in plain) and wanted == ROWS:
        assert "compressed" in path.stem or any(event._images for event, *_ in screened)
    for (one, *position), (two, *its_position) in zip(screened, plain, strict=True):
        assert position == its_position
        assert _contents(one) == _contents(two)


def test_events_are_made_like_earlier_ones_and_checksums_verified():
    data = _twice(next(path for path in STREAMS if _name(path) == "mysql-9.7.4-rows"))
    found = [event for event, *_ in _events(_reader(only_events=ROWS), data)]
    made = [event for event in found if event._images]
    assert made
    assert all("packet" not in state_of(event) for event in made)
    assert all("packet" in vars(event) for event in made)
    assert made[0].packet is made[0].packet
    last = made[-1]
    end = last.packet.log_pos
    broken = bytearray(data)
    broken[data.rindex(last._data) + 40] ^= 1
    with pytest.raises(ChecksumMismatchError, match=str(end - last.packet.event_size)):
        _events(_reader(only_events=ROWS), bytes(broken))
    with pytest.raises(AttributeError, match="WriteRowsEvent has no attribute 'nothing'"):
        print(WriteRowsEvent.__new__(WriteRowsEvent).nothing)


def test_table_maps_that_differ_in_their_last_bytes_are_different_tables():
    data = _twice(next(path for path in STREAMS if _name(path) == "mysql-9.7.4-no_checksum"))
    reader = _reader(only_events=ROWS)
    at, maps = 4, []
    while at < len(data):
        event = data[at : at + int.from_bytes(data[at + 9 : at + 13], "little")]
        if event[4] == FORMAT_DESCRIPTION_EVENT:
            reader._event_of(event)
        elif event[4] == TABLE_MAP_EVENT:
            maps.append(event)
        at += len(event)
    one = maps[0]
    tables = []
    for event in (one, one[:-1] + bytes((one[-1] ^ 1,)), one):
        reader._event_of(event)
        (facts,) = reader.table_map._known.values()
        tables.append((facts.body.null_bitmap, facts.body.optional_metadata))
    assert tables[0] != tables[1]
    assert tables[2] == tables[0]
