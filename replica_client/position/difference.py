"""The difference between two positions."""

from __future__ import annotations

from collections.abc import Mapping

from replica_client.codec.quick_dataclass import dataclass
from replica_client.gtid import GtidSet, MariadbGtidSet
from replica_client.position.position import Position


@dataclass(frozen=True, slots=True)
class Difference:
    """The transactions and bytes between two positions.

    Attributes:
        only_first: GTIDs of the first alone, as text; None where they cannot be compared. On MariaDB
            the GTIDs of domains in which the first is further.
        only_second: GTIDs of the second alone.
        bytes_ahead: bytes of binlog by which the second is ahead of the first (negative: behind);
            None where that is not known.
    """

    only_first: str | None
    only_second: str | None
    bytes_ahead: int | None

    @property
    def is_none(self) -> bool:
        """Whether both are the same position."""
        if self.only_first is None:
            return self.bytes_ahead == 0
        return not self.only_first and not self.only_second and self.bytes_ahead in (0, None)


def difference(
    first: Position, second: Position, sizes: Mapping[str, int] | None = None
) -> Difference:
    """Compare two positions of one source.

    Args:
        first: one.
        second: the other.
        sizes: bytes of the source's binlog files, oldest first, where they are known.
    """
    only_first, only_second = _gtids(first, second), _gtids(second, first)
    return Difference(only_first, only_second, _bytes(first, second, sizes or {}))


def _gtids(one: Position, other: Position) -> str | None:
    mine, theirs = one.gtid_set, other.gtid_set
    if isinstance(mine, GtidSet) and isinstance(theirs, GtidSet):
        return (mine - theirs).compact()
    if isinstance(mine, MariadbGtidSet) and isinstance(theirs, MariadbGtidSet):
        reached: dict[int, int] = {}
        for gtid in theirs:
            reached[gtid.domain_id] = max(gtid.sequence, reached.get(gtid.domain_id, 0))
        ahead = [gtid for gtid in mine if gtid.sequence > reached.get(gtid.domain_id, 0)]
        return ",".join(str(gtid) for gtid in ahead)
    return None


def _bytes(first: Position, second: Position, sizes: Mapping[str, int]) -> int | None:
    if not first.file or not second.file:
        return None
    if first.file == second.file:
        return second.offset - first.offset
    if second < first:
        behind = _bytes(second, first, sizes)
        return None if behind is None else -behind
    names = list(sizes)
    if first.file not in sizes or second.file not in sizes:
        return None
    between = names[names.index(first.file) + 1 : names.index(second.file)]
    return sizes[first.file] - first.offset + sum(sizes[name] for name in between) + second.offset
