"""Counts of the changes that could not be delivered as rows. They are saved with the position.

By default such a change stops the stream with an error. Where the user chose to go on instead, each one
becomes a :class:`Loss`, and a :class:`LossLedger` keeps their counts in the checkpoint of the position::

    "losses": [{"kind": "unknown_table", "database": "shop", "table": "t", "events": 2, "count": 70,
                "uncounted": 0, "first": "binlog.000003:1472", "last": "binlog.000004:157",
                "first_timestamp": 1753000000, "last_timestamp": 1753000100, "reason": "…"}]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Final, Literal, Self, get_args

from replica_client.errors import ConfigError, PositionStoreError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position

LOSSES_KEY: Final = "losses"
"""Name of a checkpoint's state that holds a ledger; absent when nothing was lost."""

LossKind = Literal[
    "statement",
    "undecodable",
    "incomplete_row",
    "gtid_gap",
    "unknown_table",
    "xa_prepare",
    "skipped",
]
"""The kinds of losses:

* ``statement``: rows were changed by a statement that the binlog has as text;
* ``undecodable``: a rows event, of which some or all rows cannot be decoded, was left out;
* ``incomplete_row``: row images lack columns although full rows were asked for; they were delivered;
* ``gtid_gap``: transactions that the source has, or had, never came;
* ``unknown_table``: rows of a table whose shape is not known were left out;
* ``xa_prepare``: an XA COMMIT came whose XA PREPARE, and with it all its rows, cannot be read;
* ``skipped``: an operator of the service skipped the transaction.
"""

LOSS_KINDS: Final[tuple[LossKind, ...]] = tuple(
    kind for kind in get_args(LossKind) if kind != "skipped"
)
"""The kinds that ``record_losses`` may name."""

_KEPT_PENDING: Final = 100_000
_MAX_REASON: Final = 400


@dataclass(frozen=True, slots=True)
class Loss:
    """One change that was not delivered, or only in part.

    Attributes:
        kind: see :data:`LossKind`.
        database: of the table, ``""`` when it is not known.
        table: its name, ``""`` when it is not known.
        count: what is missing: rows; for ``gtid_gap`` transactions, for ``statement`` statements; None
            when that cannot be known.
        reason: the message of the error that it would have been.
        file: binlog file of the event.
        position: offset of the event in the file.
        event_index: index of the event in its transaction.
        gtid: the transaction's GTID as text, ``""`` when it has none; of a gap the missing ones.
        timestamp: seconds since 1970 in the event's header.

    Examples:
        >>> loss = rc.Loss("gtid_gap", "", "", 3, "purged", "binlog.000024", 4, 0, "0-1-7", 1795211803)
        >>> loss.kind, loss.count, loss.gtid
        ('gtid_gap', 3, '0-1-7')
    """

    kind: LossKind
    database: str
    table: str
    count: int | None
    reason: str
    file: str
    position: int
    event_index: int
    gtid: str
    timestamp: int


@dataclass(frozen=True, slots=True)
class LossCount:
    """The losses of one kind in one table.

    Attributes:
        kind: see :data:`LossKind`.
        database: ``""`` when not known.
        table: ``""`` when not known.
        events: how many losses.
        count: the sum of their counts, as far as they are known.
        uncounted: losses among them whose count is not known.
        first: ``file:offset`` of the first one's event.
        last: of the last one's.
        first_timestamp: seconds since 1970 in the header of the first one's event.
        last_timestamp: of the last one's.
        reason: of the last one.

    Examples:
        >>> reader = rc.open_binlog("shop-bin.000001", record_losses="all")
        >>> for change in reader.changes():
        ...     pass
        >>> reader.losses.counts
        ()
    """

    kind: LossKind
    database: str
    table: str
    events: int
    count: int
    uncounted: int
    first: str
    last: str
    first_timestamp: int
    last_timestamp: int
    reason: str

    def with_loss(self, loss: Loss) -> Self:
        """Return this count with one more loss."""
        return replace(
            self,
            events=self.events + 1,
            count=self.count + (loss.count or 0),
            uncounted=self.uncounted + (loss.count is None),
            last=f"{loss.file}:{loss.position}",
            last_timestamp=loss.timestamp,
            reason=loss.reason[:_MAX_REASON],
        )

    def __str__(self) -> str:
        table = f"{self.database}.{self.table}" if self.table else "unknown tables"
        unit = {"gtid_gap": "transactions", "statement": "statements"}.get(self.kind, "rows")
        where = "" if self.kind == "gtid_gap" else f" of {table}"
        more = f", {self.uncounted} events of unknown count" if self.uncounted else ""
        return (
            f"{self.kind}{where}: {self.count} {unit} in {self.events} events{more}, "
            f"from {self.first} to {self.last}"
        )


_Key = tuple[LossKind, str, str]


class LossLedger:
    """Counts losses, and knows which of them lie before a position and are saved with it.

    Losses are added in the order of delivery, and positions asked for in the order of
    acknowledgement: what lies before one is added to the counts.

    Examples:
        >>> loss = rc.Loss("gtid_gap", "", "", 3, "purged", "binlog.000024", 4, 0, "0-1-7", 1795211803)
        >>> ledger = rc.LossLedger()
        >>> ledger.add(loss, rc.Position("binlog.000024", 4))
        >>> [(one.kind, one.count) for one in ledger.counts]
        [('gtid_gap', 3)]
    """

    def __init__(self) -> None:
        self._counts: dict[_Key, LossCount] = {}
        self._pending: list[tuple[Position, Loss]] = []

    def add(self, loss: Loss, transaction: Position) -> None:
        """Count a loss that was delivered.

        Args:
            loss: that was delivered.
            transaction: the start of its transaction.
        """
        position = Position(transaction.file, transaction.offset, None, loss.event_index)
        self._pending.append((position, loss))
        if len(self._pending) > _KEPT_PENDING:
            # Nobody acknowledges: a resume this far back counts a loss twice rather than none.
            for _, old in self._pending[: _KEPT_PENDING // 2]:
                _count(self._counts, old)
            del self._pending[: _KEPT_PENDING // 2]

    def forget_positions(self) -> None:
        """Another server's binlog follows: all losses so far lie before any of its positions."""
        self._pending = [(Position("", 0), loss) for _, loss in self._pending]

    @property
    def counts(self) -> tuple[LossCount, ...]:
        """All losses that were delivered, by kind and table."""
        counts = dict(self._counts)
        for _, loss in self._pending:
            _count(counts, loss)
        return tuple(sorted(counts.values(), key=lambda one: (one.kind, one.database, one.table)))

    def copy(self) -> LossLedger:
        """Return an independent copy."""
        other = LossLedger()
        other._counts = dict(self._counts)
        other._pending = list(self._pending)
        return other

    def to_state(self, position: Position) -> list[dict[str, object]]:
        """Return the state that the checkpoint of a position keeps, as a JSON value; ``[]`` without losses."""
        # A position by GTID alone has no place; it is after all that was delivered.
        kept = [one for one in self._pending if position.file and not one[0] < position]
        if len(kept) < len(self._pending):
            later = {id(loss) for _, loss in kept}
            for _, loss in self._pending:
                if id(loss) not in later:
                    _count(self._counts, loss)
            self._pending = kept
        return [asdict(one) for one in self._counts.values()]

    @classmethod
    def from_state(cls, value: object) -> Self:
        """Return the ledger of a state that :meth:`to_state` returned.

        Raises:
            PositionStoreError: the value is not such a state.
        """
        self = cls()
        try:
            if not isinstance(value, list):
                raise TypeError
            for one in value:
                count = _read(one)
                self._counts[count.kind, count.database, count.table] = count
        except (KeyError, TypeError, ValueError):
            raise PositionStoreError(
                "the saved position has a damaged entry about losses; restore it from a copy"
            ) from None
        return self


def loss_kinds(names: Collection[str] | str) -> frozenset[LossKind]:
    """Return the kinds in a user's list; ``"all"`` is every kind.

    Raises:
        ConfigError: a name is not that of a kind.
    """
    words = names.replace(",", " ").split() if isinstance(names, str) else names
    found: set[LossKind] = set()
    for word in words:
        match = [kind for kind in LOSS_KINDS if word in (kind, "all")]
        if not match:
            raise ConfigError(f"record_losses: {word!r} is not one of all, {', '.join(LOSS_KINDS)}")
        found.update(match)
    return frozenset(found)


def _count(counts: dict[_Key, LossCount], loss: Loss) -> None:
    key = (loss.kind, loss.database, loss.table)
    position = f"{loss.file}:{loss.position}"
    known = counts.get(key)
    if known is None:
        known = LossCount(*key, 0, 0, 0, position, position, loss.timestamp, loss.timestamp, "")
    counts[key] = known.with_loss(loss)


def _read(value: object) -> LossCount:
    if not isinstance(value, Mapping) or value["kind"] not in get_args(LossKind):
        raise TypeError
    return LossCount(
        value["kind"],
        str(value["database"]),
        str(value["table"]),
        int(value["events"]),
        int(value["count"]),
        int(value["uncounted"]),
        str(value["first"]),
        str(value["last"]),
        int(value["first_timestamp"]),
        int(value["last_timestamp"]),
        str(value["reason"]),
    )
