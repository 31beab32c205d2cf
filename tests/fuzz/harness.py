"""Mutated events against the decoder: what may happen, and what is a finding.

A mutated event may be decoded or refused with :class:`BinlogDecodeError`. Anything else is a
finding: another exception, more memory than a fixed multiple of the input, more time than a fixed
one, a decoded event that cannot be encoded.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event, event_checksum
from replica_client.protocol.binlog.event import MAGIC, BinlogFormat, DecodeOptions
from replica_client.protocol.binlog.events import EVENT_CLASSES, QueryEvent, RowsEvent
from replica_client.protocol.binlog.events.control import has_checksum_fields
from replica_client.protocol.binlog.events.rows import row_images
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.header_scan import HeaderScan

CRASHERS = Path(__file__).parent / "crashers"
GOLDEN = Path(__file__).parents[1] / "golden" / "events"

OPTIONS = DecodeOptions(max_event_size=1 << 24, max_uncompressed_size=1 << 20)
MEMORY_MULTIPLE = 160
MEMORY_BASE = 512 * 1024
SECONDS = 5.0
COMPRESSED = frozenset((40, *range(165, 172)))
_INTERESTING = (0, 1, 2, 6, 8, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_HEADER_SIZE = 19


class TookTooLongError(BaseException):
    """The deadline passed; no ordinary handler catches it."""


@dataclass(frozen=True)
class Sample:
    """An event, and the format of the file that it is from; or a file, with its magic."""

    layout: BinlogFormat
    event: bytes

    def to_json(self, reason: str) -> str:
        """What a crasher file holds."""
        layout = {
            "binlog_version": self.layout.binlog_version,
            "server_version": self.layout.server_version,
            "header_size": self.layout.header_size,
            "post_header_sizes": self.layout.post_header_sizes.hex(),
            "checksum_algorithm": int(self.layout.checksum_algorithm),
            "server_id": self.layout.server_id,
        }
        content = {"reason": reason, "format": layout, "event": self.event.hex()}
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Sample:
        """The sample of a crasher file."""
        content = json.loads(text)
        layout = content["format"]
        return cls(
            BinlogFormat(
                layout["binlog_version"],
                layout["server_version"],
                layout["header_size"],
                bytes.fromhex(layout["post_header_sizes"]),
                ChecksumAlgorithm(layout["checksum_algorithm"]),
                int(layout.get("server_id", 0)),
            ),
            bytes.fromhex(content["event"]),
        )


@dataclass
class Tally:
    """Figures of a run."""

    mutations: int = 0
    decoded: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    types: Counter[int] = field(default_factory=Counter)
    not_canonical: int = 0
    worst_multiple: float = 0.0
    findings: list[tuple[Sample, str]] = field(default_factory=list)


def samples_of_file(data: bytes) -> Iterator[Sample]:
    """Every event of a binlog that the decoder takes."""
    decoder = BinlogDecoder()
    scan = HeaderScan(data)
    with suppress(BinlogDecodeError):
        for position, header in scan:
            raw = data[position : position + header.event_size]
            before = decoder.format
            with suppress(BinlogDecodeError):
                raw = decoder.decrypted(raw, position)
                event = decoder.decode(raw, position)
                is_format = event.header.type_code in (1, 15)
                yield Sample(decoder.format if is_format else before, raw)


def samples_of_goldens() -> Iterator[Sample]:
    """Every event captured into the repository."""
    for path in sorted(GOLDEN.glob("*.json")):
        events = [bytes.fromhex(event["hex"]) for event in json.loads(path.read_text())["events"]]
        yield from samples_of_file(MAGIC + b"".join(events))


def samples_below(paths: list[Path], limit_per_file: int = 400) -> Iterator[Sample]:
    """Every event of the binlogs in some files and directories."""
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if not file.is_file():
                continue
            data = file.read_bytes()
            if data.startswith(MAGIC):
                for index, sample in enumerate(samples_of_file(data)):
                    if index >= limit_per_file:
                        break
                    yield sample


def sealed(layout: BinlogFormat, event: bytes) -> bytes:
    """The event with a size and a checksum that fit, so that its body is looked at."""
    has_checksum = layout.checksum_size > 0
    if len(event) > 4 and event[4] == EventType.FORMAT_DESCRIPTION_EVENT:
        has_checksum = has_checksum_fields(event[_HEADER_SIZE + 2 : _HEADER_SIZE + 52])
    if len(event) < 13:
        return event
    data = event[:9] + len(event).to_bytes(4, "little") + event[13:]
    if not has_checksum or len(data) < _HEADER_SIZE + 4:
        return data
    body = data[:-4]
    checksum = event_checksum(body, data[4] == EventType.FORMAT_DESCRIPTION_EVENT)
    return body + checksum.to_bytes(4, "little")


def _flip(data: bytearray, rng: random.Random) -> None:
    data[_at(data, rng)] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: random.Random) -> None:
    data[_at(data, rng)] = rng.choice(_INTERESTING)


def _run(data: bytearray, rng: random.Random) -> None:
    at = _at(data, rng)
    size = min(rng.choice((2, 3, 4, 8, 16)), len(data) - at)
    data[at : at + size] = bytes((rng.choice(_INTERESTING),)) * size


def _insert(data: bytearray, rng: random.Random) -> None:
    at = _at(data, rng)
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 9, 64)))


def _delete(data: bytearray, rng: random.Random) -> None:
    at = _at(data, rng)
    del data[at : at + rng.choice((1, 2, 4, 9))]


def _repeat(data: bytearray, rng: random.Random) -> None:
    at = _at(data, rng)
    part = data[at : at + rng.choice((1, 4, 16))]
    data[at:at] = part * rng.choice((1, 2, 8, 60))


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[_at(data, rng) :]


def _retype(data: bytearray, rng: random.Random) -> None:
    if len(data) > 4:
        data[4] = rng.choice(sorted(EVENT_CLASSES))


def _at(data: bytearray, rng: random.Random) -> int:
    """A place to change: mostly in the body, near its begin more often than not."""
    size = len(data)
    if size <= _HEADER_SIZE or rng.random() < 0.02:
        return rng.randrange(size) if size else 0
    room = size - _HEADER_SIZE
    if rng.random() < 0.5:
        room = min(room, 48)
    return _HEADER_SIZE + rng.randrange(room)


_MUTATORS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip,
    _flip,
    _set,
    _set,
    _run,
    _insert,
    _delete,
    _repeat,
    _cut,
    _retype,
)


def mutated_file(samples: list[Sample], rng: random.Random) -> Sample:
    """Some events in a row, changed in a few places, as a file."""
    first = rng.randrange(len(samples))
    part = samples[first : first + rng.randrange(2, 12)]
    data = bytearray(b"".join(sample.event for sample in part))
    for _ in range(rng.choice((1, 2, 4))):
        data[rng.randrange(len(data))] = rng.choice(_INTERESTING)
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    return Sample(part[0].layout, MAGIC + bytes(data))


def mutated(sample: Sample, other: Sample, rng: random.Random) -> Sample:
    """A sample made from one, or spliced from two."""
    data = bytearray(sample.event)
    if rng.random() < 0.05:
        at = _at(data, rng)
        data[at:] = other.event[min(at, len(other.event)) :]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if data:
            rng.choice(_MUTATORS)(data, rng)
    layout = sample.layout
    if rng.random() < 0.05 and layout.post_header_sizes:
        sizes = bytearray(layout.post_header_sizes)
        index = (data[4] - 1) % len(sizes) if len(data) > 4 else 0
        sizes[index] = rng.choice((0, 1, 2, 4, 6, 8, 9, 10, 13, 14, 60, 255))
        layout = replace(layout, post_header_sizes=bytes(sizes))
    event = bytes(data)
    return Sample(layout, event if rng.random() < 0.03 else sealed(layout, event))


def _views(body: Any) -> None:
    """Everything that a body parses on demand."""
    for name, value in vars(type(body)).items():
        if isinstance(value, property):
            with suppress(BinlogDecodeError):
                getattr(body, name)
    if isinstance(body, QueryEvent):
        with suppress(BinlogDecodeError):
            body.query_text()
    if isinstance(body, RowsEvent):
        with suppress(BinlogDecodeError):
            row_images(body, OPTIONS)


def decode_file(data: bytes) -> None:
    """Decode all events of a file whose checksums are not looked at.

    Raises:
        BinlogDecodeError: an event's size is impossible, or the file ends inside an event.
    """
    decoder = BinlogDecoder(replace(OPTIONS, verify_checksum=False))
    scan = HeaderScan(data)
    for position, header in scan:
        with suppress(BinlogDecodeError):
            event = decoder.decode(data[position : position + header.event_size], position)
            _views(event.body)
    scan.raise_if_truncated()


def decode_everything(sample: Sample) -> bool:
    """Decode an event and all in it, or a file; whether an event encodes to the same bytes.

    Raises:
        BinlogDecodeError: refused.
    """
    if sample.event.startswith(MAGIC):
        decode_file(sample.event)
        return True
    decoder = BinlogDecoder(OPTIONS, format=sample.layout)
    event = decoder.decode(sample.event, 4)
    _views(event.body)
    with suppress(BinlogDecodeError):
        for inner in decoder.inner_events(event):
            _views(inner.body)
    return encode_event(event, sample.layout) == sample.event


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise TookTooLongError when the block takes more processor time: a busy machine is no hang."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLongError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def memory_limit(sample: Sample) -> int:
    """Bytes that decoding a sample may hold at once."""
    size = len(sample.event)
    is_compressed = sample.event.startswith(MAGIC) or (size > 4 and sample.event[4] in COMPRESSED)
    if is_compressed:
        size += OPTIONS.max_uncompressed_size
    return MEMORY_BASE + MEMORY_MULTIPLE * size


def examine(sample: Sample, tally: Tally) -> str | None:
    """Try a sample; what is wrong with the decoder if something is."""
    tracemalloc.reset_peak()
    start, _ = tracemalloc.get_traced_memory()
    try:
        if not decode_everything(sample):
            tally.not_canonical += 1
        tally.decoded += 1
    except BinlogDecodeError as error:
        tally.refused[type(error).__name__] += 1
    except TookTooLongError as error:
        return f"hang: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    _, peak = tracemalloc.get_traced_memory()
    used = peak - start
    if used > memory_limit(sample):
        # Tables that are made at first use are there the second time.
        tracemalloc.reset_peak()
        start, _ = tracemalloc.get_traced_memory()
        with contextlib.suppress(Exception):
            decode_everything(sample)
        used = tracemalloc.get_traced_memory()[1] - start
    if used > memory_limit(sample):
        return f"{used} bytes of memory for an event of {len(sample.event)}"
    if len(sample.event) > 4 and sample.event[4] not in COMPRESSED:
        multiple = max(0, used - 16 * 1024) / max(len(sample.event), 1)
        tally.worst_multiple = max(tally.worst_multiple, multiple)
    return None


def fuzz(samples: list[Sample], count: int, seed: int, limit: int = 20) -> Tally:
    """Mutate samples ``count`` times; stops early after ``limit`` different findings."""
    rng = random.Random(seed)
    by_type: dict[int, list[Sample]] = {}
    for sample in samples:
        by_type.setdefault(sample.event[4], []).append(sample)
    codes = sorted(by_type)
    tally = Tally()
    seen: set[str] = set()
    # What is loaded and compiled at first use is no memory of an event.
    for sample in (*samples, mutated_file(samples, random.Random(seed))):
        with contextlib.suppress(Exception, TookTooLongError), deadline(SECONDS):
            decode_everything(sample)
    str(BinlogDecodeError("first"))
    tracemalloc.start()
    try:
        for _ in range(count):
            code = rng.choice(codes)
            if rng.random() < 0.03:
                sample = mutated_file(samples, rng)
            else:
                sample = mutated(rng.choice(by_type[code]), rng.choice(by_type[code]), rng)
            tally.mutations += 1
            tally.types[sample.event[4] if len(sample.event) > 4 else -1] += 1
            with deadline(SECONDS):
                reason = examine(sample, tally)
            if reason is None:
                continue
            kind = "".join(letter for letter in reason if not letter.isdigit())
            if kind not in seen:
                seen.add(kind)
                tally.findings.append((sample, reason))
            if len(seen) >= limit:
                break
    finally:
        tracemalloc.stop()
    return tally
