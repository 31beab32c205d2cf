"""MySQL GTIDs: ``uuid[:tag]:number``, and sets of them.

Text (what the server's own parser takes, MySQL 8.3 and later)::

    set      = [ uuid-set ] { "," [ uuid-set ] }
    uuid-set = uuid { ":" ( tag | interval ) }
    interval = number [ "-" number ]
    tag      = ( letter | "_" ) { letter | digit | "_" }      at most 32 characters

White space may stand between any two symbols. A UUID has 32 hexadecimal digits, with or without
its four dashes, or with dashes in braces. Numbers are 1 to 2**63 - 2; an interval whose end is less
than its start is empty. Intervals that follow a tag belong to it. The canonical text is in lower
case, sorted by UUID and tag, with intervals merged.

Wire form, little-endian (COM_BINLOG_DUMP_GTID, PREVIOUS_GTIDS)::

    without tags                               with tags (8.3+)
    8     number of UUIDs                      1    format, 1
                                               6    number of UUID and tag pairs
                                               1    format, 1
    each: 16  UUID                             16   UUID
                                               1    tag length * 2 (longer forms are read)
                                               n    tag
          8   number of intervals (may be 0)   8    number of intervals
          each: 8  first number                     8  first number
                8  last number + 1                  8  last number + 1

Spec: MySQL ``Gtid_set::encode`` (rpl_gtid_set.cc), ``mysql::gtid::Tag``, checked against 9.7.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Self

from replica_client.errors import GtidFormatError, ShortBufferError
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid.intervals import Intervals, IntervalsBuilder

GNO_MAX = 2**63 - 2
"""The greatest transaction number."""

TAG_SIZE_MAX = 32
"""Characters that a tag may have."""

Tsid = tuple[bytes, str]
"""Who numbers transactions: 16 bytes of UUID, and a tag or ``""``."""

_SPACE = " \t\n\v\f\r"
_HEX = r"[0-9a-fA-F]"
_UUID = re.compile(
    rf"\{{{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}\}}"
    rf"|{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}|{_HEX}{{32}}"
)
_INTERVAL = re.compile(rf"0*([0-9]{{1,19}})(?:[{_SPACE}]*-[{_SPACE}]*0*([0-9]{{1,19}}))?")
_TAG = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,31}")


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a UUID's text.

    Raises:
        GtidFormatError: the text is no UUID.
    """
    if not _UUID.fullmatch(text):
        raise GtidFormatError(f"not a UUID: {text[:60]!r}")
    return bytes.fromhex(text.strip("{}").replace("-", ""))


@lru_cache(maxsize=256)
def format_uuid(sid: bytes) -> str:
    """Return the text of a UUID's 16 bytes, as servers print it."""
    digits = sid.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _checked_tag(text: str) -> str:
    if text and not _TAG.fullmatch(text):
        raise GtidFormatError(f"not a GTID tag: {text[:60]!r}")
    return text.lower()


def _disorder(data: bytes) -> str:
    """Return the message about intervals that do not ascend."""
    previous = 0
    for first, end in struct.iter_unpack("<qq", data):
        if first <= previous or end <= first:
            return f"GTID interval {first} to {end} after {previous}"
        previous = end
    return "GTID intervals in disorder"


def _tag_size(reader: ByteReader) -> int:
    """Read an integer of as many bytes as its first byte has trailing one bits, plus one."""
    first = reader.uint(1)
    more = (~first & (first + 1)).bit_length() - 1
    return (first | reader.uint(more) << 8) >> (more + 1)


@dataclass(frozen=True, slots=True)
class Gtid:
    """One transaction of a MySQL server.

    Attributes:
        sid: the 16 bytes of the UUID of the server that numbered it.
        gno: its number, 1 or more.
        tag: its tag in lower case, ``""`` without one.

    Examples:
        >>> gtid = rc.Gtid.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:23")
        >>> gtid.gno, str(gtid)
        (23, '3e11fa47-71ca-11e1-9e33-c80aa9429562:23')
    """

    sid: bytes
    gno: int
    tag: str = ""

    def __post_init__(self) -> None:
        if len(self.sid) != 16 or not 1 <= self.gno <= GNO_MAX:
            raise GtidFormatError(f"not a GTID: {len(self.sid)} bytes of UUID, number {self.gno}")
        if self.tag:
            object.__setattr__(self, "tag", _checked_tag(self.tag))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a GTID ``uuid:number`` or ``uuid:tag:number``.

        Raises:
            GtidFormatError: the text is neither.
        """
        if not isinstance(text, str):
            raise GtidFormatError(f"a GTID is parsed from text, not {type(text).__name__}")
        parts = [part.strip(_SPACE) for part in text.split(":")]
        number = parts[-1].lstrip("0")
        if len(parts) not in (2, 3) or not re.fullmatch(r"[0-9]{1,19}", number):
            raise GtidFormatError(f"not a GTID: {text[:80]!r}")
        if len(parts) == 3 and not parts[1]:
            raise GtidFormatError(f"not a GTID: {text[:80]!r}")
        return cls(parse_uuid(parts[0]), int(number), parts[1] if len(parts) == 3 else "")

    def __str__(self) -> str:
        tag = f"{self.tag}:" if self.tag else ""
        return f"{format_uuid(self.sid)}:{tag}{self.gno}"


def _tsid_of(gtid: Gtid) -> Tsid:
    if not isinstance(gtid, Gtid):
        raise GtidFormatError(f"give a Gtid, not {type(gtid).__name__}: Gtid.parse(text)")
    return gtid.sid, gtid.tag


def _sets_of(gtids: GtidSet) -> dict[Tsid, Intervals]:
    if not isinstance(gtids, GtidSet):
        raise GtidFormatError(f"give a GtidSet, not {type(gtids).__name__}: GtidSet.parse(text)")
    return gtids._sets


class GtidSet:
    """An immutable set of GTIDs.

    ``str()`` is the server's own canonical text (a comma and a line end between UUIDs);
    :meth:`compact` the same on one line. Operators are those of :class:`frozenset`: ``|``, ``&``,
    ``-``, ``<=``, ``<``, ``>=``, ``>``, ``in``.

    Examples:
        >>> done = rc.GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77")
        >>> str(done | rc.GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:78"))
        '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-78'
    """

    __slots__ = ("_hash", "_sets")

    def __init__(self, gtids: Iterable[Gtid] = ()) -> None:
        if isinstance(gtids, str) or not isinstance(gtids, Iterable):
            raise GtidFormatError("give several Gtid; GtidSet.parse(text) reads a text")
        builder = GtidSetBuilder()
        for gtid in gtids:
            _tsid_of(gtid)
            builder.add(gtid)
        self._sets: dict[Tsid, Intervals] = builder.snapshot()._sets
        self._hash: int | None = None

    @classmethod
    def of_intervals(cls, sets: Mapping[Tsid, Intervals]) -> Self:
        """Return a set of the intervals of each (UUID bytes, tag)."""
        self = cls.__new__(cls)
        self._sets = {tsid: numbers for tsid, numbers in sets.items() if numbers}
        self._hash = None
        return self

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a set as the server does.

        Raises:
            GtidFormatError: the server would refuse the text; the message quotes the part at fault.
        """
        if not isinstance(text, str):
            raise GtidFormatError(f"a GTID set is parsed from text, not {type(text).__name__}")
        builders: dict[Tsid, IntervalsBuilder] = {}
        for group in text.split(","):
            uuid, *items = (item.strip(_SPACE) for item in group.split(":"))
            if not uuid and not items:
                continue
            sid = parse_uuid(uuid)
            builder: IntervalsBuilder | None = None
            tag = ""
            for item in items:
                match = _INTERVAL.fullmatch(item)
                if match is None:
                    if not item:
                        raise GtidFormatError(f"empty interval in GTID set at {group[:80]!r}")
                    tag, builder = _checked_tag(item), None
                    continue
                first = int(match[1])
                last = first if match[2] is None else int(match[2])
                if not 1 <= first <= GNO_MAX or last > GNO_MAX:
                    raise GtidFormatError(f"number out of range in GTID set: {item[:60]!r}")
                if builder is None:
                    builder = builders.setdefault((sid, tag), IntervalsBuilder())
                builder.add_interval(first, last)
        return cls.of_intervals({tsid: each.snapshot() for tsid, each in builders.items()})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a set from its wire form, with or without tags.

        Raises:
            GtidFormatError: it is malformed, cut short, or bytes follow it.
        """
        reader = ByteReader(data)
        try:
            sets = cls._decode(reader)
        except ShortBufferError as error:
            raise GtidFormatError(f"truncated GTID set: {error}") from None
        if reader.remaining:
            raise GtidFormatError(f"{reader.remaining} bytes after a GTID set")
        return cls.of_intervals(sets)

    @staticmethod
    def _decode(reader: ByteReader) -> dict[Tsid, Intervals]:
        header = reader.take(8, "GTID set header")
        tagged = header[7] == 1
        if header[7] > 1:
            raise GtidFormatError(f"unknown GTID set format {header[7]}")
        count = int.from_bytes(header[1:7] if tagged else header[:7], "little")
        if count > reader.remaining // (25 if tagged else 24):
            raise GtidFormatError(f"{count} UUIDs do not fit into {reader.remaining} bytes")
        sets: dict[Tsid, Intervals] = {}
        for _ in range(count):
            sid, tag = reader.take(16, "UUID"), ""
            if tagged:
                size = _tag_size(reader)
                if size > TAG_SIZE_MAX:
                    raise GtidFormatError(f"GTID tag of {size} characters")
                tag = _checked_tag(reader.take(size, "GTID tag").decode("latin-1"))
            intervals = reader.uint(8)
            if intervals > reader.remaining // 16:
                raise GtidFormatError(
                    f"{intervals} GTID intervals do not fit into {reader.remaining} bytes"
                )
            data = reader.take(16 * intervals, "GTID intervals")
            try:
                numbers = Intervals.unpack(data)
            except ValueError:
                raise GtidFormatError(_disorder(data)) from None
            known = sets.get((sid, tag))
            sets[sid, tag] = numbers if known is None else known | numbers
        return sets

    def encode(self, *, tags: bool | None = None) -> bytes:
        """Return the wire form.

        Args:
            tags: write the format with tags or without; by default with them only if there are any,
                as the server does. Without them, tagged GTIDs are left out.
        """
        tagged = self.has_tags if tags is None else tags
        items = [item for item in sorted(self._sets.items()) if tagged or not item[0][1]]
        out = ByteWriter()
        if tagged:
            out.uint(1, 1).uint(len(items), 6).uint(1, 1)
        else:
            out.uint(len(items), 8)
        for (sid, tag), numbers in items:
            out.raw(sid)
            if tagged:
                out.uint(2 * len(tag), 1).raw(tag.encode("ascii"))
            out.uint(numbers.interval_count, 8).raw(numbers.pack())
        return out.done()

    def compact(self) -> str:
        """Return the canonical text on one line."""
        return self._text(",")

    def _text(self, separator: str) -> str:
        by_uuid: dict[bytes, list[str]] = {}
        for (sid, tag), numbers in sorted(self._sets.items()):
            parts = by_uuid.setdefault(sid, [format_uuid(sid)])
            if tag:
                parts.append(tag)
            parts.append(str(numbers))
        return separator.join(":".join(parts) for parts in by_uuid.values())

    def to_json(self) -> str:
        """Return the set as a JSON value: its text on one line."""
        return self.compact()

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the set that :meth:`to_json` encoded.

        Raises:
            GtidFormatError: the value is no such text.
        """
        if not isinstance(value, str):
            raise GtidFormatError(f"a GTID set in JSON is a string, not {type(value).__name__}")
        return cls.parse(value)

    @property
    def has_tags(self) -> bool:
        """Whether any GTID of the set has a tag."""
        return any(tag for _, tag in self._sets)

    @property
    def count(self) -> int:
        """Number of GTIDs (may pass what ``len`` could give)."""
        return sum(numbers.count for numbers in self._sets.values())

    def intervals(self) -> Mapping[Tsid, Intervals]:
        """Return the intervals of each (UUID bytes, tag), in canonical order."""
        return dict(sorted(self._sets.items()))

    def add(self, gtid: Gtid) -> Self:
        """Return this set with one more GTID; for many, use :class:`GtidSetBuilder`."""
        key = _tsid_of(gtid)
        numbers = self._sets.get(key, Intervals()).add_interval(gtid.gno, gtid.gno)
        return type(self).of_intervals({**self._sets, key: numbers})

    def contains(self, gtid: Gtid) -> bool:
        """Return whether a GTID is in the set."""
        numbers = self._sets.get(_tsid_of(gtid))
        return numbers is not None and gtid.gno in numbers

    def union(self, other: GtidSet) -> Self:
        """GTIDs of either set."""
        sets = dict(self._sets)
        for tsid, numbers in _sets_of(other).items():
            sets[tsid] = sets[tsid] | numbers if tsid in sets else numbers
        return type(self).of_intervals(sets)

    def intersection(self, other: GtidSet) -> Self:
        """GTIDs of both sets."""
        theirs = _sets_of(other)
        shared = self._sets.keys() & theirs.keys()
        return type(self).of_intervals({t: self._sets[t] & theirs[t] for t in shared})

    def difference(self, other: GtidSet) -> Self:
        """GTIDs of this set that are not in the other (the server's ``GTID_SUBTRACT``)."""
        empty, theirs = Intervals(), _sets_of(other)
        return type(self).of_intervals(
            {tsid: numbers - theirs.get(tsid, empty) for tsid, numbers in self._sets.items()}
        )

    def issubset(self, other: GtidSet) -> bool:
        """Return whether all GTIDs are in the other set (the server's ``GTID_SUBSET``)."""
        theirs = _sets_of(other)
        return all(
            tsid in theirs and numbers.issubset(theirs[tsid])
            for tsid, numbers in self._sets.items()
        )

    def isdisjoint(self, other: GtidSet) -> bool:
        """Return whether the sets have no GTID in common."""
        theirs = _sets_of(other)
        return all(
            tsid not in theirs or numbers.isdisjoint(theirs[tsid])
            for tsid, numbers in self._sets.items()
        )

    def __or__(self, other: object) -> Self:
        return self.union(other) if isinstance(other, GtidSet) else NotImplemented

    def __and__(self, other: object) -> Self:
        return self.intersection(other) if isinstance(other, GtidSet) else NotImplemented

    def __sub__(self, other: object) -> Self:
        return self.difference(other) if isinstance(other, GtidSet) else NotImplemented

    def __contains__(self, gtid: object) -> bool:
        if isinstance(gtid, str):
            gtid = Gtid.parse(gtid)
        return isinstance(gtid, Gtid) and self.contains(gtid)

    def __eq__(self, other: object) -> bool:
        return self._sets == other._sets if isinstance(other, GtidSet) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.issubset(other) if isinstance(other, GtidSet) else NotImplemented

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        return self.issubset(other) and self != other

    def __ge__(self, other: object) -> bool:
        return other.issubset(self) if isinstance(other, GtidSet) else NotImplemented

    def __gt__(self, other: object) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        return other.issubset(self) and self != other

    def __bool__(self) -> bool:
        return bool(self._sets)

    def __iter__(self) -> Iterator[Gtid]:
        for (sid, tag), numbers in sorted(self._sets.items()):
            for first, last in numbers:
                for gno in range(first, last + 1):
                    yield Gtid(sid, gno, tag)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._sets.items()))
        return self._hash

    def __str__(self) -> str:
        return self._text(",\n")

    def __repr__(self) -> str:
        return f"GtidSet.parse({self.compact()!r})"


class GtidSetBuilder:
    """A mutable set of GTIDs for the one who adds one at each commit.

    Adding costs a search among the intervals of one server, and nothing but that server's last
    boundary when the GTID is the next one. :meth:`snapshot` copies no interval: it gives a
    :class:`GtidSet` that shares them, and the same object while nothing was added.
    """

    __slots__ = ("_builders", "_done", "_snapshot")

    def __init__(self, initial: GtidSet | None = None) -> None:
        self._builders: dict[Tsid, IntervalsBuilder] = {}
        self._done: dict[Tsid, Intervals] = dict(initial._sets) if initial is not None else {}
        self._snapshot: GtidSet | None = initial

    def _builder(self, tsid: Tsid) -> IntervalsBuilder:
        builder = self._builders.get(tsid)
        if builder is None:
            builder = self._builders[tsid] = IntervalsBuilder(self._done.get(tsid))
        return builder

    def add(self, gtid: Gtid) -> bool:
        """Add one GTID; says whether it is new."""
        return self.add_number(gtid.sid, gtid.gno, gtid.tag)

    def add_number(self, sid: bytes, gno: int, tag: str = "") -> bool:
        """Add the GTID of these valid parts; says whether it is new."""
        if not self._builder((sid, tag)).add(gno):
            return False
        self._snapshot = None
        return True

    def add_interval(self, sid: bytes, first: int, last: int, tag: str = "") -> None:
        """Add the GTIDs of one server from one valid number to another."""
        self._builder((sid, tag)).add_interval(first, last)
        self._snapshot = None

    def update(self, other: GtidSet) -> None:
        """Add all GTIDs of a set."""
        for tsid, numbers in other._sets.items():
            builder = self._builder(tsid)
            if numbers.interval_count > 64:
                merged = builder.snapshot() | numbers
                self._builders[tsid] = IntervalsBuilder(merged)
            else:
                for first, last in numbers:
                    builder.add_interval(first, last)
        self._snapshot = None

    def __contains__(self, gtid: Gtid) -> bool:
        return gtid.gno in self._builder((gtid.sid, gtid.tag))

    def snapshot(self) -> GtidSet:
        """Return an immutable copy of the current set."""
        if self._snapshot is None:
            for tsid, builder in self._builders.items():
                self._done[tsid] = builder.snapshot()
            self._snapshot = GtidSet.of_intervals(self._done)
        return self._snapshot
