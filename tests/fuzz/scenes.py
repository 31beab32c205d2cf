"""What whole-file fuzzing starts from: short runs of real events, with their format description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from replica_client.errors import BinlogDecodeError, ConfigError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encryption import read_keys
from replica_client.protocol.binlog.event import MAGIC, BinlogFormat, DecodeOptions
from replica_client.protocol.constants.event_types import EventType
from tests.header_scan import HeaderScan

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
CORPUS = ROOT.parent / "shared" / "corpus"

_BEGINS = frozenset(
    (
        EventType.GTID_LOG_EVENT,
        EventType.ANONYMOUS_GTID_LOG_EVENT,
        EventType.GTID_TAGGED_LOG_EVENT,
        EventType.GTID_EVENT,
    )
)
_FORMATS = (EventType.FORMAT_DESCRIPTION_EVENT, EventType.START_EVENT_V3)
_MOST_EVENTS = 14
_MOST_BYTES = 12 * 1024


@dataclass(frozen=True)
class Scene:
    """A small binlog: its layout, its events, and where it is from.

    ``begin`` is what stands before the events: the magic, or also the header of an encrypted file.
    """

    layout: BinlogFormat
    events: tuple[bytes, ...]
    origin: str
    begin: bytes = MAGIC

    @property
    def kind(self) -> tuple[int, ...]:
        """The type codes that it has, to choose evenly among."""
        return tuple(sorted({event[4] for event in self.events}))


def _plain_events(data: bytes) -> Iterator[tuple[BinlogFormat, bytes]]:
    decoder = BinlogDecoder(DecodeOptions(verify_checksum=False))
    with suppress(BinlogDecodeError):
        for position, header in HeaderScan(data):
            raw = data[position : position + header.event_size]
            with suppress(BinlogDecodeError):
                raw = decoder.decrypted(raw, position)
                decoder.decode(raw, position)
                yield decoder.format, raw


def scenes_of(data: bytes, origin: str) -> Iterator[Scene]:
    """A plain binlog cut into scenes, each with the format description in force."""
    head: bytes | None = None
    layout = BinlogFormat()
    part: list[bytes] = []

    def done() -> Iterator[Scene]:
        if head is not None and part:
            yield Scene(layout, (head, *part), origin)
        part.clear()

    for current, raw in _plain_events(data):
        if raw[4] in _FORMATS:
            yield from done()
            head, layout = raw, current
            continue
        full = len(part) >= _MOST_EVENTS or sum(map(len, part)) + len(raw) > _MOST_BYTES
        if raw[4] in _BEGINS or full:
            yield from done()
        if len(raw) <= _MOST_BYTES:
            part.append(raw)
    yield from done()


def golden_scenes() -> Iterator[Scene]:
    """Scenes of everything captured into the repository."""
    for path in sorted((GOLDEN / "events").glob("*.json")):
        events = [bytes.fromhex(event["hex"]) for event in json.loads(path.read_text())["events"]]
        yield from scenes_of(MAGIC + b"".join(events), path.name)
    for path in sorted(GOLDEN.glob("*/*.binlog")):
        yield from scenes_of(path.read_bytes(), path.name)


def corpus_scenes(limit_per_file: int = 60) -> Iterator[Scene]:
    """Scenes of the corpus beside the repository; none where it is not there."""
    if not CORPUS.is_dir():
        return
    for path in sorted(CORPUS.rglob("*")):
        if not path.is_file() or path.stat().st_size > 1 << 22:
            continue
        data = path.read_bytes()
        if not data.startswith(MAGIC):
            continue
        for index, scene in enumerate(scenes_of(data, path.name)):
            if index >= limit_per_file:
                break
            yield scene


def encrypted_scenes() -> Iterator[tuple[Scene, dict[str, bytes]]]:
    """Whole encrypted files of the repository with their keys."""
    for path in sorted(GOLDEN.glob("*/encrypted*.binlog")):
        expected = json.loads(path.with_suffix(".json").read_text())
        keys = {key_id: bytes.fromhex(key) for key_id, key in expected["keys"].items()}
        data = path.read_bytes()
        events = tuple(
            data[position : position + header.event_size] for position, header in HeaderScan(data)
        )
        yield Scene(BinlogFormat(), events, path.name), keys
    path = CORPUS / "mysql-testsuite-9.7.4" / "rpl_nogtid_encryption_master-bin.000002"
    keyring = path.with_name("rpl_nogtid_encryption_keyring_master")
    with suppress(OSError, ConfigError):
        data = path.read_bytes()
        yield (
            Scene(BinlogFormat(), (data[512:],), path.name, data[:512]),
            read_keys(keyring.read_bytes()),
        )
