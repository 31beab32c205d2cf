"""Payloads and sidecar indexes, changed inside: compressed again, with sizes and checksums that are right.

A plain change of their bytes ends at the decompressor or at the checksum. Here the readers get past both.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from struct import Struct
from typing import Any

import zstandard

import replica_client as rc
from replica_client.archive.index_format import MAGIC, SUFFIX, VERSION
from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogFormat
from replica_client.protocol.binlog.events.transaction_payload import (
    PayloadCompression,
    TransactionPayloadEvent,
)
from replica_client.protocol.binlog.payload import split_payload
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.fuzz.file_harness import FileCase, Mode
from tests.fuzz.file_mutation import _CHANGES, _event
from tests.fuzz.harness import OPTIONS, TookTooLongError, deadline
from tests.fuzz.scenes import Scene
from tests.unit.stream.transactions.relocation import relocated

DATA = Path(rc.__file__).parent / "testing" / "data"
SECONDS = 30.0
_PAYLOAD = EventType.TRANSACTION_PAYLOAD_EVENT
_GTIDS = (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT)
_MODES: tuple[Mode, ...] = ("changes", "changes", "batches", "batches", "events")
_PREFIX = Struct("<4sHII")
_NUMBERS = (0, 1, -1, 2, 7, 64, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, 1 << 64, 1e300)
_TEXTS = ("", "shop", "orders", "\x1b[2J", "a" * 5000, "\u0000", "../../x")


class PayloadMaker:
    """Makes binlogs with one compressed transaction whose events were changed before the compression."""

    def __init__(self, scenes: Sequence[Scene], seed: int) -> None:
        self._scenes = [scene for scene in scenes if self._events(scene)]
        self._all = list(scenes)
        self._seed = seed

    @staticmethod
    def _events(scene: Scene) -> list[bytes]:
        """Return the events of a transaction of MySQL 8.0 or later, without checksums."""
        if len(scene.events) < 3 or scene.events[0][4] != EventType.FORMAT_DESCRIPTION_EVENT:
            return []
        if len(scene.layout.post_header_sizes) < _PAYLOAD or scene.events[1][4] not in _GTIDS:
            return []
        size = scene.layout.checksum_size
        decoder = BinlogDecoder(format=scene.layout)
        found: list[bytes] = []
        for event in scene.events[2:]:
            if event[4] == _PAYLOAD:
                with suppress(ReplicaClientError):
                    found += split_payload(decoder.decode(event, 4).body, OPTIONS)
            else:
                plain = event[: len(event) - size]
                found.append(plain[:9] + len(plain).to_bytes(4, "little") + plain[13:])
        return found

    def case(self, number: int) -> FileCase:
        """Return case ``number``; the same number gives the same case."""
        rng = random.Random(self._seed << 40 | number)
        scene, other = rng.choice(self._scenes), rng.choice(self._all)
        inner = Scene(_without_checksums(scene), tuple(self._events(scene)), scene.origin)
        events = list(inner.events)
        for _ in range(rng.choice((1, 1, 2, 3))):
            rng.choice(_CHANGES)(events, inner, other, rng)
            if not events:
                break
        content = b"".join(events)
        if rng.random() < 0.1 and content:
            content = content[: rng.randrange(len(content))]
        stated = (
            len(content) if rng.random() < 0.9 else rng.choice((0, 1, 1 << 17, len(content) + 1))
        )
        if rng.random() < 0.15:
            body = TransactionPayloadEvent.of(content, PayloadCompression.NONE, stated)
        else:
            packed = zstandard.compress(content, 1)
            body = TransactionPayloadEvent.of(packed, PayloadCompression.ZSTD, stated)
        like = scene.events[1][:4] + bytes((_PAYLOAD,)) + scene.events[1][5:]
        payload = _event(scene.layout, like, body)
        assert payload is not None
        data = relocated(scene.begin + scene.events[0] + scene.events[1] + payload)
        options = rng.choice(("strict", "strict", "python", "bytes"))
        return FileCase(data, rng.choice(_MODES), options, rng.choice((1, 200, 1 << 20)))


def _without_checksums(scene: Scene) -> BinlogFormat:
    return replace(scene.layout, checksum_algorithm=ChecksumAlgorithm.OFF)


@dataclass
class IndexTally:
    """Figures of a run over indexes."""

    indexes: int = 0
    found: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


class IndexPlayground:
    """An archive in a temporary directory, whose index is changed and then searched."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._directory = tempfile.TemporaryDirectory()
        self.path = Path(self._directory.name)
        for path in DATA.glob("shop-bin.0*"):
            shutil.copy(path, self.path)
        rc.open_archive(self.path).index()
        self._indexes = {path: path.read_bytes() for path in self.path.glob(f"*{SUFFIX}")}
        self.keys = [("shop.orders", 7), ("shop.orders", 1_000_000), ("shop.customers", 3)]

    def close(self) -> None:
        """Remove the directory."""
        self._directory.cleanup()

    def play(self, number: int, tally: IndexTally) -> None:
        """Change an index and search with it: it may be used, or made again, or refused by name."""
        rng = random.Random(self._seed << 40 | number)
        for path, data in self._indexes.items():
            path.write_bytes(changed_index(data, rng) if rng.random() < 0.7 else data)
        tally.indexes += 1
        try:
            with deadline(SECONDS):
                archive = rc.open_archive(self.path, write_indexes=False)
                table, key = rng.choice(self.keys)
                tally.found += sum(1 for _ in archive.find(table, key))
                if rng.random() < 0.3:
                    tally.found += sum(1 for _ in archive.find(table, where="id > 3"))
                    archive.stats()
        except ReplicaClientError as error:
            tally.refused[type(error).__name__] += 1
        except TookTooLongError as error:
            tally.findings.append(f"index {number} of seed {self._seed}: hang: {error}")
        except Exception as error:
            reason = f"{type(error).__name__}: {error!s:.200}"
            tally.findings.append(f"index {number} of seed {self._seed}: {reason}")


def changed_index(data: bytes, rng: random.Random) -> bytes:
    """Return an index with other numbers, texts, filters and records, and checksums that fit them."""
    _, _, size, _ = _PREFIX.unpack(data[: _PREFIX.size])
    base = _PREFIX.size + size
    head = json.loads(zlib.decompress(data[_PREFIX.size : base]))
    sections = [
        bytearray(data[base + offset : base + offset + length])
        for offset, length, _ in (table["section"] for table in head["tables"])
    ]
    for _ in range(rng.choice((1, 1, 2, 5))):
        if rng.random() < 0.5 and any(sections):
            _change_bytes(rng.choice([one for one in sections if one]), rng)
        else:
            _change_value(head, rng)
    at = 0
    for table, section in zip(_tables(head), sections, strict=False):
        if isinstance(table, dict) and rng.random() < 0.97:
            table["section"] = [at, len(section), zlib.crc32(section)]
        at += len(section)
    text = json.dumps(head, separators=(",", ":")).encode()
    if rng.random() < 0.05:
        raw = bytearray(text)
        _change_bytes(raw, rng)
        text = bytes(raw)
    packed = zlib.compress(text, 1)
    begin = _PREFIX.pack(MAGIC, VERSION, len(packed), zlib.crc32(packed))
    return b"".join((begin, packed, *sections))


def _tables(head: dict[str, Any]) -> list[Any]:
    tables = head.get("tables")
    return tables if isinstance(tables, list) else []


def _change_bytes(data: bytearray, rng: random.Random) -> None:
    kind, at = rng.random(), rng.randrange(len(data))
    # The sizes and the varints of the records stand in front.
    if rng.random() < 0.7:
        at = rng.randrange(min(len(data), 48))
    if kind < 0.5:
        data[at] = rng.choice((0, 1, 2, 4, 0x7F, 0x80, 0xFE, 0xFF))
    elif kind < 0.7:
        data[at] ^= 1 << rng.randrange(8)
    elif kind < 0.85:
        data[at:at] = rng.choice((b"\xff" * 9, b"\x80" * 12, b"\0" * 3, rng.randbytes(5)))
    else:
        del data[at : at + rng.choice((1, 2, 8, 200))]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Give every (container, key) of a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


def _change_value(head: dict[str, Any], rng: random.Random) -> None:
    places = list(_places(head))
    container, key = rng.choice(places)
    old = container[key]
    if isinstance(old, str) and key == "content" and rng.random() < 0.8:
        content = bytearray(b64decode(old))
        if content:
            _change_bytes(content, rng)
        container[key] = b64encode(content).decode()
    elif isinstance(old, bool) or not isinstance(old, int):
        container[key] = rng.choice((None, 0, [], {}, *_TEXTS))
    elif rng.random() < 0.5:
        container[key] = old + rng.choice((-1, 1, 8, -8, 1 << 20))
    else:
        container[key] = rng.choice(_NUMBERS)
