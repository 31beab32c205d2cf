"""GTIDs under asyncmy's names: they can be members of sets."""

from __future__ import annotations

from collections.abc import Iterable

from replica_client.compat.pymysqlreplication import gtid as _base


class Gtid(_base.Gtid):
    """Transactions of one server."""

    @staticmethod
    def overlap(i1: _base.Interval, i2: _base.Interval) -> bool:
        """Return whether two intervals have a number in common."""
        return _base.overlap(i1, i2)

    @staticmethod
    def contains(i1: _base.Interval, i2: _base.Interval) -> bool:
        """Return whether the first interval has all numbers of the second."""
        return _base.contains(i1, i2)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.sid, tuple(self.intervals)))


class GtidSet(_base.GtidSet):
    """Transactions of several servers."""

    def __init__(self, gtid_set: str | Iterable[_base.Gtid] | None = None) -> None:
        super().__init__(gtid_set)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(str(self))
