"""GTIDs of MySQL: intervals of one server, and sets of them."""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Iterable
from typing import Any, BinaryIO

Interval = tuple[int, int]
"""First number, and the number behind the last one."""

_GTID = re.compile(
    r"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})"
    r"((?::[0-9]+(?:-[0-9]+)?)+)"
)
_INTERVAL = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def overlap(i1: Interval, i2: Interval) -> bool:
    """Return whether two intervals have a number in common."""
    return i1[0] < i2[1] and i2[0] < i1[1]


def contains(i1: Interval, i2: Interval) -> bool:
    """Return whether the first interval has all numbers of the second."""
    return i1[0] <= i2[0] and i2[1] <= i1[1]


def _wrong(text: str) -> ValueError:
    return ValueError(f"GTID format is incorrect: {text!r}")


def _joined(intervals: Iterable[Interval]) -> list[Interval]:
    found: list[Interval] = []
    for first, behind in sorted(intervals):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(behind, found[-1][1])
        else:
            found.append((first, behind))
    return found


class Gtid:
    """Transactions of one server.

    Args:
        gtid: ``uuid:1-56:58``.
        sid: the server's UUID, instead of the text.
        intervals: their numbers, with ``sid``.

    Attributes:
        sid: the server's UUID.
        intervals: pairs of the first number and the number after the last.
    """

    @staticmethod
    def parse_interval(interval: str) -> Interval:
        """Parse an interval such as ``1-56``.

        Raises:
            ValueError: the text is not an interval.
        """
        match = _INTERVAL.fullmatch(interval)
        if match is None:
            raise _wrong(interval)
        first = int(match[1])
        return first, int(match[2] or first) + 1

    @staticmethod
    def parse(gtid: str) -> tuple[str, list[Interval]]:
        """Parse a text into the server's UUID and the intervals.

        Raises:
            ValueError: the text is not a GTID.
        """
        match = _GTID.fullmatch(gtid)
        if match is None:
            raise _wrong(gtid)
        return match[1], [Gtid.parse_interval(part) for part in match[2][1:].split(":")]

    def __init__(
        self, gtid: str | None, sid: str | None = None, intervals: Iterable[Interval] = ()
    ) -> None:
        if sid is None:
            if gtid is None:
                raise ValueError("a GTID needs its text, or a sid and intervals")
            sid, intervals = Gtid.parse(gtid.strip())
        self.sid = sid
        self.intervals: list[Interval] = []
        for interval in intervals:
            self._add(interval)

    def _add(self, interval: Interval) -> None:
        if interval[0] >= interval[1]:
            raise ValueError(f"Malformed interval {interval}")
        if any(overlap(interval, other) for other in self.intervals):
            raise ValueError(f"Overlapping interval {interval}")
        self.intervals = _joined([*self.intervals, interval])

    def _with(self, intervals: Iterable[Interval]) -> Gtid:
        found = Gtid(None, self.sid)
        found.intervals = list(intervals)
        return found

    def __contains__(self, other: Gtid) -> bool:
        return self.sid == other.sid and all(
            any(contains(mine, theirs) for mine in self.intervals) for theirs in other.intervals
        )

    def __add__(self, other: Gtid) -> Gtid:
        if self.sid != other.sid:
            raise ValueError(f"Attempt to merge different SID {self.sid} != {other.sid}")
        found = self._with(self.intervals)
        for interval in other.intervals:
            found._add(interval)
        return found

    def __sub__(self, other: Gtid) -> Gtid:
        left = list(self.intervals)
        if self.sid == other.sid:
            for first, behind in other.intervals:
                left = [
                    piece
                    for mine in left
                    for piece in ((mine[0], min(mine[1], first)), (max(mine[0], behind), mine[1]))
                    if piece[0] < piece[1]
                ]
        return self._with(left)

    def __str__(self) -> str:
        parts = (
            str(first) if behind == first + 1 else f"{first}-{behind - 1}"
            for first, behind in self.intervals
        )
        return ":".join((self.sid, *parts))

    def __repr__(self) -> str:
        return f'<Gtid "{self}">'

    @property
    def encoded_length(self) -> int:
        """The number of bytes that :meth:`encode` returns."""
        return 16 + 8 + 16 * len(self.intervals)

    def encode(self) -> bytes:
        """Return the bytes of these transactions in COM_BINLOG_DUMP_GTID."""
        numbers = [number for interval in self.intervals for number in interval]
        head = uuid.UUID(self.sid).bytes + struct.pack("<Q", len(self.intervals))
        return head + struct.pack(f"<{len(numbers)}Q", *numbers)

    @classmethod
    def decode(cls, payload: BinaryIO) -> Gtid:
        """Read the bytes that :meth:`encode` wrote."""
        sid = str(uuid.UUID(bytes=payload.read(16)))
        (count,) = struct.unpack("<Q", payload.read(8))
        return cls(None, sid, (struct.unpack("<QQ", payload.read(16)) for _ in range(count)))

    def _order(self) -> tuple[str, list[Interval]]:
        return self.sid, self.intervals

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gtid) and self._order() == other._order()

    def __lt__(self, other: Gtid) -> bool:
        return self._order() < other._order()

    def __le__(self, other: Gtid) -> bool:
        return self._order() <= other._order()

    def __gt__(self, other: Gtid) -> bool:
        return self._order() > other._order()

    def __ge__(self, other: Gtid) -> bool:
        return self._order() >= other._order()

    __hash__ = None  # type: ignore[assignment]


class GtidSet:
    """Transactions of several servers.

    Args:
        gtid_set: its text (``uuid:1-56,uuid:1``), None for none, or Gtid objects.

    Attributes:
        gtids: one for each server.
    """

    def __init__(self, gtid_set: str | Iterable[Gtid] | None) -> None:
        self.gtids: list[Gtid] = []
        if not gtid_set:
            return
        if isinstance(gtid_set, str):
            gtid_set = [Gtid(part.strip()) for part in gtid_set.split(",")]
        for gtid in gtid_set:
            self.merge_gtid(gtid)

    def merge_gtid(self, gtid: Gtid) -> None:
        """Take more transactions into the set."""
        for at, mine in enumerate(self.gtids):
            if mine.sid == gtid.sid:
                self.gtids[at] = mine._with(_joined([*mine.intervals, *gtid.intervals]))
                return
        self.gtids.append(gtid)

    def __contains__(self, other: object) -> bool:
        if isinstance(other, GtidSet):
            return all(gtid in self for gtid in other.gtids)
        if isinstance(other, Gtid):
            return any(other in gtid for gtid in self.gtids)
        raise NotImplementedError

    def __add__(self, other: object) -> GtidSet:
        found = GtidSet(self.gtids)
        if isinstance(other, Gtid):
            found.merge_gtid(other)
        elif isinstance(other, GtidSet):
            for gtid in other.gtids:
                found.merge_gtid(gtid)
        else:
            raise NotImplementedError
        return found

    def __str__(self) -> str:
        return ",".join(map(str, self.gtids))

    def __repr__(self) -> str:
        return f"<GtidSet {self.gtids!r}>"

    @property
    def encoded_length(self) -> int:
        """The number of bytes that :meth:`encoded` returns."""
        return 8 + sum(gtid.encoded_length for gtid in self.gtids)

    def encoded(self) -> bytes:
        """Return the bytes of this set in COM_BINLOG_DUMP_GTID."""
        return struct.pack("<Q", len(self.gtids)) + b"".join(gtid.encode() for gtid in self.gtids)

    encode = encoded

    @classmethod
    def decode(cls, payload: BinaryIO) -> GtidSet:
        """Read the bytes that :meth:`encode` wrote."""
        (count,) = struct.unpack("<Q", payload.read(8))
        return cls([Gtid.decode(payload) for _ in range(count)])

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, GtidSet) and self.gtids == other.gtids

    __hash__ = None  # type: ignore[assignment]
