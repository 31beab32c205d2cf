"""How far the snapshot of a sink of events is: a part of the sink's checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

from replica_client.errors import PositionStoreError
from replica_client.schema.history import SchemaChange
from replica_client.tables.table_copy import TableName

STATE_KEY: Final = "snapshot"


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far a table is.

    Attributes:
        database: of the table.
        table: its name on the source.
        request: name of the request that it is of; empty for the first copy.
        where: condition in SQL of the wanted rows.
        key: columns of the primary key that ranges are of.
        done: the range that was written last, as JSON; None: nothing was.
        rows: how many were written.
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
    """

    left: list[TableProgress] = field(default_factory=list)
    copied: set[TableName] = field(default_factory=set)
    begun: bool = False
    requests: list[str] = field(default_factory=list)

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

    def to_state(self) -> dict[str, object]:
        """As JSON value."""
        return {
            "left": [asdict(one) | {"key": list(one.key)} for one in self.left],
            "copied": sorted(map(list, self.copied)),
            "begun": self.begun,
            "requests": list(self.requests),
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
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PositionStoreError(
                f"the snapshot in the saved position is not of this release: {error}"
            ) from None
