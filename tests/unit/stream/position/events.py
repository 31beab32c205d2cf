"""Events for position tests: laid out in files and sent as a source sends them."""

from dataclasses import dataclass, field, replace

from replica_client.protocol.binlog.event import BinlogEvent, EventHeader
from replica_client.protocol.binlog.events import (
    FormatDescriptionEvent,
    GtidEvent,
    GtidTaggedEvent,
    HeartbeatEvent,
    HeartbeatV2Event,
    IntvarEvent,
    MariadbGtidEvent,
    MariadbGtidListEvent,
    PreviousGtidsEvent,
    QueryEvent,
    RotateEvent,
    StopEvent,
    TransactionPayloadEvent,
    UnknownEvent,
    XaPrepareEvent,
    XidEvent,
)
from replica_client.protocol.constants.event_types import EventType as T
from replica_client.protocol.gtid import GtidSet

SID = bytes(range(16))
ARTIFICIAL = 0x20


@dataclass
class Rows:
    flags: int = 0


def event(code, body=None, *, size=50, timestamp=1, flags=0, server_id=1, next_position=None):
    header = EventHeader(timestamp, code, server_id, size, next_position or 0, flags)
    return BinlogEvent(header, body if body is not None else UnknownEvent(b""))


def query(text, size=60):
    return event(T.QUERY_EVENT, QueryEvent(1, 0, 0, b"", b"d", text.encode()), size=size)


def gtid(gno, tag="", sid=SID):
    if tag:
        return event(T.GTID_TAGGED_LOG_EVENT, GtidTaggedEvent(0, sid, gno, tag), size=77)
    return event(T.GTID_LOG_EVENT, GtidEvent(0, sid, gno), size=79)


def anonymous():
    return event(T.ANONYMOUS_GTID_LOG_EVENT, GtidEvent(0, bytes(16), 0), size=79)


def mariadb_gtid(domain, server, sequence, flags=0):
    body = MariadbGtidEvent(sequence=sequence, domain_id=domain, flags=flags)
    return event(T.GTID_EVENT, body, size=42, server_id=server)


def table_map():
    return event(T.TABLE_MAP_EVENT, size=48)


def rows(end=False, size=100):
    return event(T.WRITE_ROWS_EVENT, Rows(int(end)), size=size)


def xid():
    return event(T.XID_EVENT, XidEvent(7), size=31)


def xa_prepare(one_phase=0):
    return event(T.XA_PREPARE_LOG_EVENT, XaPrepareEvent(one_phase, 1, b"g", b"b"), size=40)


def intvar():
    return event(T.INTVAR_EVENT, IntvarEvent(2, 5), size=32)


def stop():
    return event(T.STOP_EVENT, StopEvent(), size=23)


def format_description(created=0, next_position=None):
    body = FormatDescriptionEvent(create_timestamp=created)
    return event(T.FORMAT_DESCRIPTION_EVENT, body, size=122, next_position=next_position)


def rotate(file, position=4, artificial=False):
    return event(
        T.ROTATE_EVENT,
        RotateEvent(position, file),
        size=44,
        timestamp=0 if artificial else 5,
        flags=ARTIFICIAL if artificial else 0,
    )


def previous_gtids(text=""):
    body = PreviousGtidsEvent(GtidSet.parse(text).encode())
    return event(T.PREVIOUS_GTIDS_LOG_EVENT, body, size=71)


def gtid_list(*gtids):
    body = MariadbGtidListEvent(tuple(gtids))
    return event(T.GTID_LIST_EVENT, body, size=43, next_position=4 + 122 + 43)


def heartbeat(file, next_position):
    return event(
        T.HEARTBEAT_LOG_EVENT,
        HeartbeatEvent(file),
        timestamp=0,
        size=39,
        next_position=next_position,
    )


def heartbeat_v2(file, position):
    return event(T.HEARTBEAT_LOG_EVENT_V2, HeartbeatV2Event(file, position), timestamp=0, size=45)


def payload(*inner):
    """A TRANSACTION_PAYLOAD event and the events inside it."""
    outer = event(T.TRANSACTION_PAYLOAD_EVENT, TransactionPayloadEvent.of(b"", 255, 0), size=90)
    return [outer, *(replace(one, inner_index=at) for at, one in enumerate(inner))]


@dataclass
class Source:
    """Binlog files as a source writes them: events with their places."""

    name: str = "binlog"
    number: int = 1
    offset: int = 4
    located: list = field(default_factory=list)

    @property
    def file(self):
        return f"{self.name}.{self.number:06d}"

    def write(self, *events, positions=True):
        """Append events; `positions=False` leaves next_position 0, as MariaDB 11.4 does."""
        for one in events:
            if one.inner_index is not None:
                self.located.append(
                    replace(one, file=self.file, position=self.located[-1].position)
                )
                continue
            end = self.offset + one.header.event_size
            header = replace(one.header, next_position=end & 0xFFFFFFFF if positions else 0)
            self.located.append(replace(one, header=header, file=self.file, position=self.offset))
            self.offset = end
            if one.header.type_code == T.ROTATE_EVENT and not header.flags & ARTIFICIAL:
                self.number, self.offset = self.number + 1, 4
        return self

    def rotate(self):
        return self.write(rotate(f"{self.name}.{self.number + 1:06d}"))

    def stream(self, file=None, offset=4):
        """What a dump from a place sends."""
        file = file or self.located[0].file
        sent = [rotate(file, offset, artificial=True)]
        if offset > 4:
            sent.append(format_description(next_position=0))
        current = file
        for one in self.located:
            if one.file < file or (one.file == file and one.position < offset):
                continue
            if one.file != current:
                current = one.file
                sent.append(rotate(current, 4, artificial=True))
            sent.append(replace(one, file="", position=0))
        return sent
