"""Chunks of a served file as packets: they carry every event once, and clients meet in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_client.protocol.wire.framing import encode_packets
from replica_client.server.packet_output import FramedChunks
from replica_client.server.served_files import ServedFile
from tests.source.binlogs import BinlogMaker, events_in

CHUNK = 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    maker = BinlogMaker()
    for number in range(60):
        maker.transaction(number * 7 % 400)
    return maker.save(tmp_path / "binlog.000001")


def read(chunks: FramedChunks, file: ServedFile, position: int, sequence: int) -> list[bytearray]:
    found = []
    while (chunk := chunks.get(file, position, sequence)).size:
        found.append(chunk.packets)
        position, sequence = position + chunk.size, chunk.sequence
    assert position == file.size
    return found


@pytest.mark.parametrize("sequence", [0, 3, 255])
def test_every_event_is_one_packet(path, sequence) -> None:
    file = ServedFile("binlog.000001", path)
    found = b"".join(read(FramedChunks(CHUNK), file, 4, sequence))
    events = events_in(path)
    assert found == b"".join(
        encode_packets(b"\0" + event, (sequence + number) & 0xFF)
        for number, event in enumerate(events)
    )


def test_clients_meet_wherever_they_began(path) -> None:
    file, chunks = ServedFile("binlog.000001", path), FramedChunks(CHUNK)
    position, ends = 4, set()
    for event in events_in(path)[:30]:
        some, sequence = position, 0
        while (chunk := chunks.get(file, some, sequence)).size:
            some += chunk.size
        ends.add(chunks.get(file, position, 0).size + position)
        position += len(event)
    assert len(ends) <= position // CHUNK + 2


def test_a_buffer_is_shared_and_few_are_kept(path) -> None:
    file = ServedFile("binlog.000001", path)
    chunks = FramedChunks(CHUNK)
    first, second = read(chunks, file, 4, 1), read(chunks, file, 4, 1)
    assert all(one is other for one, other in zip(first, second, strict=True))
    chunks = FramedChunks(CHUNK, kept_size=2 * CHUNK)
    read(chunks, file, 4, 1)
    assert sum(len(chunk.packets) for chunk in chunks._chunks.values()) <= 2 * CHUNK


def test_what_was_appended_is_seen_at_once(path) -> None:
    file, chunks = ServedFile("binlog.000001", path), FramedChunks(CHUNK)
    end = file.size
    assert not chunks.get(file, end, 9).size
    more = events_in(path)[-1]
    file.append(more)
    assert chunks.get(file, end, 9).packets == encode_packets(b"\0" + more, 9)
    file.append(more)
    assert chunks.get(file, end, 9).size == 2 * len(more)
