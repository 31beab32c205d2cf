"""Progress of the snapshot of an event sink, which is saved in the sink's checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, field, replace
from typing import Any, Final, Self

from replica_client.codec.quick_dataclass import dataclass
from replica_client.daemon.signals import EXECUTE, Signal
from replica_client.errors import PositionStoreError
from replica_client.schema.history import SchemaChange
from replica_client.tables.table_copy import TableName

STATE_KEY: Final = "snapshot"
MAX_SIGNALS: Final = 100
"""Signals at most whose tables are not looked up yet: they are part of every checkpoint."""
MAX_TABLES: Final = 10_000
"""Pending tables above which signals are refused."""


@dataclass(frozen=True, slots=True)
class TableProgress:
    """Progress of a table.

    Attributes:
        database: of the table.
        table: its name on the source.
        request: name of its request; empty for the first copy.
        where: condition in SQL of the wanted rows, from someone who may read any row.
        filter: condition of :mod:`replica_client.rows.where` of the wanted rows, as the sink gets them.
        key: primary key columns on which the ranges are based.
        done: the range that was written last, as JSON; None: there is none.
        rows: number of rows read; with a filter, of rows written.
        blocking: the rows are marked as those of a first copy, of all tables of the request.
        whole: the table has no visible key: it is read at once, and its earlier changes are left
            out of the stream.
    """

    database: str
    table: str
    request: str = ""
    where: str = ""
    key: tuple[str, ...] = ()
    done: list[Any] | None = None
    rows: int = 0
    whole: bool = False
    blocking: bool = False
    filter: str = ""

    @property
    def name(self) -> TableName:
        """Database and table name."""
        return self.database, self.table


@dataclass(slots=True)
class SnapshotProgress:
    """Progress of all tables.

    Attributes:
        left: tables that are not done, in order; the first one is being read.
        copied: tables whose first copy is done.
        begun: whether a row of a first copy was written.
        requests: names of requests whose tables are known here.
        signals: signals whose tables are not looked up yet.
        request: the request whose row was written last.
        digests: what decided how rows of copied tables look, by ``database.table``; a table
            without columns and transforms of its own has none. None: not known.
    """

    left: list[TableProgress] = field(default_factory=list)
    copied: set[TableName] = field(default_factory=set)
    begun: bool = False
    requests: list[str] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    request: str = ""
    digests: dict[str, str] | None = None

    @property
    def known(self) -> set[TableName]:
        """Tables whose first copy is done or pending."""
        return self.copied | {one.name for one in self.left if not one.request}

    def forget(self, wants: Callable[[TableName], bool]) -> list[TableName]:
        """Forget tables that are not wanted any more; they are copied when they return.

        Returns:
            the tables that are forgotten.
        """
        gone = sorted(name for name in self.known if not wants(name))
        self.copied.difference_update(gone)
        self.left = [one for one in self.left if one.request or one.name not in gone]
        return gone

    def forget_changed(self, digest: Callable[[TableName], str]) -> list[TableName]:
        """Forget copies of tables whose rows look different now; return these tables.

        Args:
            digest: of a table; empty if it has no columns and transforms of its own.
        """
        before = self.digests
        if before is None:
            return []
        changed = [
            name for name in sorted(self.known) if before.get(".".join(name), "") != digest(name)
        ]
        self.copied.difference_update(changed)
        self.left = [one for one in self.left if one.request or one.name not in changed]
        return changed

    def note_digests(self, digest: Callable[[TableName], str]) -> None:
        """Record how rows of the known tables look."""
        found = {".".join(name): digest(name) for name in sorted(self.known)}
        self.digests = {name: one for name, one in found.items() if one}

    def has_left(self, request: str) -> bool:
        """Return whether rows of a request are not written."""
        return any(one.request == request for one in self.left)

    def end(self) -> None:
        """Record that the first table is done."""
        one = self.left.pop(0)
        if not one.request:
            self.copied.add(one.name)

    def follow(self, change: SchemaChange, wants: Callable[[TableName], bool]) -> bool:
        """Apply a schema change of the stream: a table's progress moves to its new name.

        Args:
            change: of the stream.
            wants: whether to copy a table of which the sink has no copy.

        Returns:
            Whether the progress changed.
        """
        name = (change.database, change.table)
        if change.kind == "create_table":
            # The stream delivers all rows of a new table.
            if name in self.known or not wants(name):
                return False
            self.copied.add(name)
            return True
        after = change.name_after
        if after == name:
            return False
        known = name in self.known
        self.left = [replace(one, database=after[0], table=after[1]) if one.name == name else one
                     for one in self.left if one.name != after]  # fmt: skip
        self.copied.discard(after)
        if name in self.copied:
            self.copied.remove(name)
            self.copied.add(after)
        elif not known and wants(after):
            self.left.append(TableProgress(*after))
        return True

    def take(self, signal: Signal) -> bool:
        """Handle a signal of the stream; return False if too many tables are already pending."""
        if signal.kind == EXECUTE:
            if len(self.signals) >= MAX_SIGNALS or len(self.left) >= MAX_TABLES:
                return False
            self.signals.append(signal)
            return True
        self.left = [one for one in self.left if not (one.request and signal.stops(one.name))]
        if not signal.tables:
            self.signals.clear()
        self.signals = [one for one in self.signals if not set(one.tables) <= set(signal.tables)]
        return True

    def expand(self, there: Collection[TableName]) -> list[Signal]:
        """Look up the tables that signals mean; return the signals that match none.

        Args:
            there: tables that the sink wants and the source has.
        """
        signals, self.signals = self.signals, []
        for one in signals:
            for name in one.names(there):
                made = TableProgress(*name, request=one.id, blocking=one.blocking)
                text = one.where(name)
                self.left.append(
                    replace(made, where=text) if one.raw else replace(made, filter=text)
                )
        return [one for one in signals if not one.names(there)]

    def to_state(self) -> dict[str, object]:
        """Return the progress as JSON value."""
        return {
            "left": [asdict(one) | {"key": list(one.key)} for one in self.left],
            "copied": sorted(map(list, self.copied)),
            "begun": self.begun,
            "requests": list(self.requests),
            "signals": [one.to_state() for one in self.signals],
            "request": self.request,
            **({} if self.digests is None else {"digests": self.digests}),
        }

    @classmethod
    def from_state(cls, value: Any) -> Self:
        """Build the progress from a value of :meth:`to_state`, or an empty one from None.

        Raises:
            PositionStoreError: the value is malformed.
        """
        if value is None:
            return cls()
        try:
            return cls(
                [TableProgress(**{**one, "key": tuple(one["key"])}) for one in value["left"]],
                {(str(database), str(table)) for database, table in value["copied"]},
                bool(value["begun"]),
                [str(one) for one in value["requests"]],
                [Signal.from_state(one) for one in value.get("signals", ())],
                str(value.get("request", "")),
                None if (found := value.get("digests")) is None else dict(found),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PositionStoreError(
                f"the snapshot in the saved position is not of this release: {error}"
            ) from None
