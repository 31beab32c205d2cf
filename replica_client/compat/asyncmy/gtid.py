"""GTIDs under asyncmy's names: they can be members of sets."""

from __future__ import annotations

from collections.abc import Iterable

from replica_client.compat.pymysqlreplication import gtid as _base


class Gtid(_base.Gtid):
    """Transactions of one server."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.sid, tuple(self.intervals)))


class GtidSet(_base.GtidSet):
    """Transactions of several servers."""

    def __init__(self, gtid_set: str | Iterable[_base.Gtid] | None = None) -> None:
        super().__init__(gtid_set)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(str(self))
