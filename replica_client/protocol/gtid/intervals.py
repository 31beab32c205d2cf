"""Sets of transaction numbers as intervals: an immutable value and its builder.

Both keep half-open intervals as sorted boundaries (``start, end, start, end, …``) in chunks of a
few hundred intervals. A builder and its snapshots share chunks, and a chunk is copied before its
first change. So a snapshot costs one pointer per chunk, and adding a number to a set of millions of
intervals moves at most one chunk.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import lt

CHUNK_BOUNDS = 1024
"""Boundaries (two for an interval) after which a chunk is split."""


def _split(bounds: array[int]) -> tuple[array[int], ...]:
    size = CHUNK_BOUNDS // 2
    return tuple(bounds[at : at + size] for at in range(0, len(bounds), size))


def _joined(chunks: tuple[array[int], ...]) -> array[int]:
    if len(chunks) == 1:
        return chunks[0]
    bounds: array[int] = array("q")
    for chunk in chunks:
        bounds += chunk
    return bounds


def _sweep(left: array[int], right: array[int], keep: Callable[[bool, bool], bool]) -> array[int]:
    """Boundaries of the numbers for which ``keep(in left, in right)`` is true."""
    out: array[int] = array("q")
    left_at = right_at = 0
    left_size, right_size = len(left), len(right)
    inside = False
    while left_at < left_size or right_at < right_size:
        if right_at >= right_size or (left_at < left_size and left[left_at] <= right[right_at]):
            bound = left[left_at]
        else:
            bound = right[right_at]
        if left_at < left_size and left[left_at] == bound:
            left_at += 1
        if right_at < right_size and right[right_at] == bound:
            right_at += 1
        now = keep(bool(left_at & 1), bool(right_at & 1))
        if now != inside:
            out.append(bound)
            inside = now
    return out


class Intervals:
    """An immutable set of integers, kept as intervals.

    Shapes: iterating gives ``(first, last)`` pairs, both included, ascending, never touching.
    """

    __slots__ = ("_chunks", "_firsts", "_hash")

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        builder = IntervalsBuilder()
        for first, last in intervals:
            builder.add_interval(first, last)
        built = builder.snapshot()
        self._chunks: tuple[array[int], ...] = built._chunks
        self._firsts: tuple[int, ...] = built._firsts
        self._hash: int | None = None

    @classmethod
    def _of_chunks(cls, chunks: tuple[array[int], ...], firsts: tuple[int, ...]) -> Intervals:
        self = cls.__new__(cls)
        self._chunks = chunks
        self._firsts = firsts
        self._hash = None
        return self

    @classmethod
    def _of_bounds(cls, bounds: array[int]) -> Intervals:
        chunks = _split(bounds)
        return cls._of_chunks(chunks, tuple(chunk[0] for chunk in chunks))

    @classmethod
    def unpack(cls, data: bytes) -> Intervals:
        """Return the intervals that :meth:`pack` encoded.

        Raises:
            ValueError: the bounds are not each greater than the one before, the first than 0.
        """
        bounds = array("q")
        bounds.frombytes(data)
        if sys.byteorder == "big":
            bounds.byteswap()
        if bounds and (bounds[0] <= 0 or not all(map(lt, bounds, islice(bounds, 1, None)))):
            raise ValueError("bounds that do not ascend")
        return cls._of_bounds(bounds)

    def _bounds(self) -> array[int]:
        return _joined(self._chunks)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for chunk in self._chunks:
            for at in range(0, len(chunk), 2):
                yield chunk[at], chunk[at + 1] - 1

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and bool(bisect_right(self._chunks[at], number) & 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return self._chunks == other._chunks or self._bounds() == other._bounds()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._bounds().tobytes())
        return self._hash

    def __repr__(self) -> str:
        return f"Intervals({str(self)!r})"

    def __str__(self) -> str:
        return ":".join(f"{a}-{b}" if a != b else str(a) for a, b in self)

    @property
    def interval_count(self) -> int:
        """Number of intervals."""
        return sum(map(len, self._chunks)) // 2

    @property
    def count(self) -> int:
        """Number of integers in the set."""
        return sum(sum(chunk[1::2]) - sum(chunk[0::2]) for chunk in self._chunks)

    @property
    def last(self) -> int:
        """The greatest number, 0 for an empty set."""
        return self._chunks[-1][-1] - 1 if self._chunks else 0

    def pack(self) -> bytes:
        """Encode each interval as its first number and its last number + 1, 8 bytes little-endian each."""
        bounds = self._bounds()
        if sys.byteorder == "big":
            bounds = bounds[:]
            bounds.byteswap()
        return bounds.tobytes()

    def add_interval(self, first: int, last: int) -> Intervals:
        """Return this set with the numbers ``first`` to ``last``."""
        builder = IntervalsBuilder(self)
        builder.add_interval(first, last)
        return builder.snapshot()

    def issubset(self, other: Intervals) -> bool:
        """Return whether every number of this set is in ``other``."""
        if self._chunks == other._chunks:
            return True
        bounds = other._bounds()
        at = 0
        for first, last in self:
            at = bisect_right(bounds, first, at)
            if not at & 1 or bounds[at] <= last:
                return False
        return True

    def isdisjoint(self, other: Intervals) -> bool:
        """Return whether no number is in both sets."""
        bounds = other._bounds()
        at = 0
        for first, last in self:
            at = bisect_right(bounds, first, at)
            if at & 1 or (at < len(bounds) and bounds[at] <= last):
                return False
        return True

    def __or__(self, other: Intervals) -> Intervals:
        if not other or self._chunks == other._chunks:
            return self
        if not self:
            return other
        small, large = sorted((self, other), key=lambda each: len(each._chunks))
        if len(small._chunks) == 1 and len(small._chunks[0]) <= 16:
            builder = IntervalsBuilder(large)
            for first, last in small:
                builder.add_interval(first, last)
            return builder.snapshot()
        return self._of_bounds(_sweep(self._bounds(), other._bounds(), lambda a, b: a or b))

    def __and__(self, other: Intervals) -> Intervals:
        if self._chunks == other._chunks:
            return self
        return self._of_bounds(_sweep(self._bounds(), other._bounds(), lambda a, b: a and b))

    def __sub__(self, other: Intervals) -> Intervals:
        if not other or not self:
            return self
        # A shared beginning is found quickly: most sets that are compared are nearly equal.
        same = 0
        for ours, theirs in zip(self._chunks, other._chunks, strict=False):
            if ours != theirs:
                break
            same += 1
        left, right = _joined(self._chunks[same:]), _joined(other._chunks[same:])
        return self._of_bounds(_sweep(left, right, lambda a, b: a and not b))


class IntervalsBuilder:
    """A mutable set of integers with cheap immutable snapshots.

    Adding is a binary search and the move of at most one chunk; adding the number after the
    greatest one touches nothing but the last boundary. :meth:`snapshot` costs one pointer per
    chunk, and nothing when the set did not change since the last one.
    """

    __slots__ = ("_chunks", "_firsts", "_owned", "_snapshot")

    def __init__(self, initial: Intervals | None = None) -> None:
        self._chunks: list[array[int]] = list(initial._chunks) if initial else []
        self._firsts: list[int] = list(initial._firsts) if initial else []
        self._owned: list[bool] = [False] * len(self._chunks)
        self._snapshot: Intervals | None = initial

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and bool(bisect_right(self._chunks[at], number) & 1)

    def _own(self, at: int) -> array[int]:
        chunk = self._chunks[at]
        if not self._owned[at]:
            chunk = self._chunks[at] = chunk[:]
            self._owned[at] = True
        return chunk

    def add(self, number: int) -> bool:
        """Add one number; says whether it is new."""
        chunks = self._chunks
        if chunks and chunks[-1][-1] == number:
            self._snapshot = None
            self._own(len(chunks) - 1)[-1] = number + 1
            return True
        if number in self:
            return False
        self.add_interval(number, number)
        return True

    def add_interval(self, first: int, last: int) -> None:
        """Add the numbers ``first`` to ``last``; nothing when ``last`` is less than ``first``."""
        if last < first:
            return
        end = last + 1
        self._snapshot = None
        if not self._chunks:
            self._put(0, 0, array("q", (first, end)))
            return
        # No interval touches one in another chunk, so only chunks low to high can touch this one.
        low = max(bisect_right(self._firsts, first) - 1, 0)
        high = max(bisect_right(self._firsts, end) - 1, low)
        if high > low:
            self._merge_across(low, high, first, end)
            return
        chunk = self._own(low)
        left = bisect_left(chunk, first)
        right = bisect_right(chunk, end)
        # Odd: inside (or at the end of) an interval, whose own boundary then stays.
        inner: array[int] = array("q")
        if not left & 1:
            inner.append(first)
        if not right & 1:
            inner.append(end)
        chunk[left:right] = inner
        if len(chunk) > CHUNK_BOUNDS:
            self._put(low, low + 1, chunk)
        else:
            self._firsts[low] = chunk[0]

    def _merge_across(self, low: int, high: int, first: int, end: int) -> None:
        # The chunks between low and high lie inside [first, end) as a whole.
        bounds = self._chunks[low] + self._chunks[high]
        self._put(low, high + 1, _sweep(bounds, array("q", (first, end)), lambda a, b: a or b))

    def _put(self, start: int, stop: int, bounds: array[int]) -> None:
        chunks = [bounds] if len(bounds) <= CHUNK_BOUNDS else list(_split(bounds))
        self._chunks[start:stop] = chunks
        self._firsts[start:stop] = [chunk[0] for chunk in chunks]
        self._owned[start:stop] = [True] * len(chunks)

    def snapshot(self) -> Intervals:
        """Return an immutable copy of the current set."""
        if self._snapshot is None:
            self._owned = [False] * len(self._chunks)
            self._snapshot = Intervals._of_chunks(tuple(self._chunks), tuple(self._firsts))
        return self._snapshot
