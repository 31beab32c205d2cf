"""The answer to a dump command."""

import pytest
from hypothesis import given, settings, strategies as st

from replica_client.errors import (
    AccessDeniedError,
    BinlogDisabledError,
    BinlogPurgedError,
    BinlogReadError,
    MalformedPacketError,
    PacketTooLargeError,
    ProtocolError,
    ServerError,
    ServerIdConflictError,
    UnexpectedPacketError,
    UnknownBinlogError,
)
from replica_client.protocol.wire.dump_commands import DumpSession, SemiSyncAck
from replica_client.protocol.wire.framing import encode_packets
from replica_client.protocol.wire.packets import EofPacket, ErrPacket
from replica_client.protocol.wire.server_errors import server_error

EVENTS = [bytes([n]) * (20 + n) for n in range(1, 6)]


def stream(*payloads: bytes) -> bytes:
    packets = enumerate(payloads, 1)
    return b"".join(encode_packets(payload, number) for number, payload in packets)


EVENT_STREAM = stream(*(b"\0" + event for event in EVENTS), EofPacket().encode())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_then_end(size) -> None:
    session = DumpSession()
    events = []
    for at in range(0, len(EVENT_STREAM), size):
        events += session.receive_data(EVENT_STREAM[at : at + size])
    assert events == EVENTS
    assert session.ended
    assert session.error is None
    assert session.receive_data(b"anything") == []


def test_cut_at_every_byte_says_so_inside_a_packet() -> None:
    for size in range(len(EVENT_STREAM)):
        session = DumpSession()
        events = session.receive_data(EVENT_STREAM[:size])
        inside = session.mid_packet
        session.receive_eof()
        assert events == EVENTS[: len(events)]
        assert isinstance(session.error, MalformedPacketError) == inside


def test_events_before_an_error_are_delivered() -> None:
    error = ErrPacket(1236, "Could not find first log file name in binary log index file")
    session = DumpSession()
    assert session.receive_data(stream(b"\0" + EVENTS[0], error.encode())) == [EVENTS[0]]
    assert session.ended
    assert isinstance(session.error, UnknownBinlogError)
    assert session.error.errno == 1236


def test_what_is_no_event_error_or_end() -> None:
    session = DumpSession()
    session.receive_data(stream(b"\x07abc"))
    assert isinstance(session.error, UnexpectedPacketError)


def test_event_larger_than_the_limit() -> None:
    session = DumpSession(max_packet_size=100)
    session.receive_data(stream(b"\0" + bytes(101)))
    assert isinstance(session.error, PacketTooLargeError)


def test_acknowledgement_bytes() -> None:
    session = DumpSession(semi_sync=True)
    session.receive_data(stream(b"\0\xef\1" + EVENTS[0]))
    assert session.semi_sync_active
    assert session._framer.ack_wanted == 1
    data = session.semi_sync_ack("b.000001", 99)
    assert data[:4] == bytes((len(data) - 4, 0, 0, 0))
    assert SemiSyncAck.decode(data[4:]) == SemiSyncAck("b.000001", 99)


@given(st.lists(st.binary(max_size=60), max_size=8), st.booleans())
@settings(max_examples=400, deadline=None)
def test_random_payloads_end_in_typed_errors(payloads, semi_sync) -> None:
    session = DumpSession(semi_sync=semi_sync, max_packet_size=1 << 20)
    session.receive_data(stream(*payloads))
    session.receive_eof()
    assert session.error is None or isinstance(session.error, ProtocolError | ServerError)


@given(st.binary(max_size=200))
@settings(max_examples=400, deadline=None)
def test_random_bytes_end_in_typed_errors(data) -> None:
    session = DumpSession(max_packet_size=1 << 20)
    session.receive_data(data)
    session.receive_eof()
    assert session.error is None or isinstance(session.error, ProtocolError | ServerError)


# Texts of real servers: MySQL 5.6 to 9.7, MariaDB 10.11 and 11.8.
@pytest.mark.parametrize(
    ("errno", "message", "kind"),
    [
        (
            1045,
            "Access denied for user 'repl'@'localhost' (using password: YES)",
            AccessDeniedError,
        ),
        (
            1227,
            "Access denied; you need (at least one of) the REPLICATION SLAVE",
            AccessDeniedError,
        ),
        (1381, "You are not using binary logging", BinlogDisabledError),
        (1236, "Binary log is not open", BinlogDisabledError),
        (1236, "Could not find first log file name in binary log index file", UnknownBinlogError),
        (
            1236,
            "Client requested source to start replication from position > file size",
            UnknownBinlogError,
        ),
        (
            1236,
            "Client requested master to start replication from impossible position; the first event "
            "'binlog.000001' at 100000000, the last event read from 'binlog.000001' at 4",
            UnknownBinlogError,
        ),
        (
            1236,
            "Cannot replicate because the source purged required binary logs. Replicate the missing "
            "transactions from elsewhere, or provision a new replica from backup.",
            BinlogPurgedError,
        ),
        (
            1236,
            "The slave is connecting using CHANGE MASTER TO MASTER_AUTO_POSITION = 1, but the master "
            "has purged binary logs containing GTIDs that the slave requires.",
            BinlogPurgedError,
        ),
        (
            1236,
            "Could not find GTID state requested by slave in any binlog files. Probably the slave "
            "state is too old and required binlog files have been purged.",
            BinlogPurgedError,
        ),
        (
            1236,
            "A slave with the same server_uuid/server_id as this slave has connected to the master",
            ServerIdConflictError,
        ),
        (
            1236,
            "Slave has more GTIDs than the master has, using the master's SERVER_UUID.",
            BinlogReadError,
        ),
        (1236, "something new", BinlogReadError),
        (1105, "Unknown error", ServerError),
    ],
)
def test_error_numbers_and_texts_become_types(errno, message, kind) -> None:
    error = server_error(errno, "HY000", message)
    assert type(error) is kind
    assert message in str(error)
    assert "\n" not in str(error)
