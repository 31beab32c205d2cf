"""How far the snapshot of a sink of events is: a part of the sink's checkpoint."""

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
"""Signals that wait for their tables to be looked up, at most: they are part of every checkpoint."""
MAX_TABLES: Final = 10_000
"""Tables that are left, beyond which signals are refused."""


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far a table is.

    Attributes:
        database: of the table.
        table: its name on the source.
        request: name of the request that it is of; empty for the first copy.
        where: condition in SQL of the wanted rows, of somebody who may choose any.
        filter: condition of :mod:`replica_client.rows.where` of the wanted rows, as the sink gets them.
        key: columns of the primary key that ranges are of.
        done: the range that was written last, as JSON; None: nothing was.
        rows: how many were written.
        blocking: the rows are marked as those of a first copy, of all tables of the request.
        whole: nothing tells its rows apart: it is read at once, and what the stream has of it before is left out.
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
        """Database and name."""
        return self.database, self.table


@dataclass(slots=True)
class SnapshotProgress:
    """How far all tables are.

    Attributes:
        left: tables that are not done, in order; the first one is being read.
        copied: tables whose first copy is done.
        begun: whether a row of a first copy was written.
        requests: names of requests whose tables are known here.
        signals: what signals ask for whose tables are not known here yet.
        request: the request of which a row was written last.
    """

    left: list[TableProgress] = field(default_factory=list)
    copied: set[TableName] = field(default_factory=set)
    begun: bool = False
    requests: list[str] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    request: str = ""

    @property
    def known(self) -> set[TableName]:
        """Tables whose first copy is done or to be made."""
        return self.copied | {one.name for one in self.left if not one.request}

    def end(self) -> None:
        """The first table is done."""
        one = self.left.pop(0)
        if not one.request:
            self.copied.add(one.name)

    def follow(self, change: SchemaChange, wants: Callable[[TableName], bool]) -> bool:
        """A definition changed in the stream: what the sink has of a table goes with its name.

        Args:
            change: of the stream.
            wants: whether a table is to be copied that the sink has no copy of.

        Returns:
            whether something is different now.
        """
        name = (change.database, change.table)
        if change.kind == "create_table":
            # The stream has all of its rows.
            if name in self.known or not wants(name):
                return False
            self.copied.add(name)
            return True
        after = None if change.after is None else (change.after.database, change.after.name)
        if after is None or after == name:
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
        """Take a signal of the stream; False where too much is asked for already."""
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
        """Find out which tables signals mean; returns those that mean none.

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
        """As JSON value."""
        return {
            "left": [asdict(one) | {"key": list(one.key)} for one in self.left],
            "copied": sorted(map(list, self.copied)),
            "begun": self.begun,
            "requests": list(self.requests),
            "signals": [one.to_state() for one in self.signals],
            "request": self.request,
        }

    @classmethod
    def from_state(cls, value: Any) -> Self:
        """What :meth:`to_state` gave; None for nothing.

        Raises:
            PositionStoreError: it is none.
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
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PositionStoreError(
                f"the snapshot in the saved position is not of this release: {error}"
            ) from None
