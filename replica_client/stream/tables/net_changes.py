"""Net changes: which rows many changes of a table remove, and which are there afterwards.

A table with a primary key has at most one row to remove and one to add per key. One without has a
number for each different row: how many more or fewer of it there must be. Either way the order of
changes needs no keeping: everything is committed at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import copysign
from typing import Any, Final, Generic, TypeVar

from replica_client.errors import SinkError
from replica_client.rows.special_values import ABSENT, WHY_ABSENT
from replica_client.schema.kinds import REALS
from replica_client.schema.model import TableModel

Values = tuple[Any, ...]
"""A row, or a key, as the mirror stores it."""

_NEGATIVE_ZERO: Final = object()

Key = TypeVar("Key")
Row = TypeVar("Row")


class DivergedError(SinkError):
    """Raised when a table of the mirror differs from the source's table before a change.

    Attributes:
        table_name: database and table; None where they are not known.
    """

    def __init__(self, table: str, what: str, table_name: tuple[str, str] | None = None) -> None:
        self.table_name = table_name
        super().__init__(
            f"{table}: {what}: the mirror is not what the source's table was (it was changed by others, "
            "did not begin with the source's rows, or foreign keys cascaded, which the binlog does not record); "
            "copy the table again (replica-client snapshot CONFIG --sink SINK --table TABLE), or set missing_rows = "
            "'ignore'"
        )


class NetByKey(Generic[Key, Row]):
    """Net changes of a table with a primary key.

    Args:
        name: of the table, for messages.
        strict: a row that is added twice, or removed twice, is an error; otherwise rows may be there
            before or not, whatever was done to them.

    Attributes:
        removed: keys of existing rows to remove.
        added: rows to add afterwards, by key.
    """

    def __init__(self, name: str, *, strict: bool) -> None:
        self._name, self._strict = name, strict
        self.removed: dict[Key, None] = {}
        self.added: dict[Key, Row] = {}

    def insert(self, key: Key, row: Row) -> None:
        """Add a row.

        Raises:
            DivergedError: strict, and the row was added before.
        """
        if self._strict and key in self.added:
            raise DivergedError(self._name, "a row is added that is there")
        self.added[key] = row

    def delete(self, key: Key) -> None:
        """Remove a row.

        Raises:
            DivergedError: strict, and the row was removed before.
        """
        if not self._strict:
            # It may have been there before it was added.
            self.added.pop(key, None)
            self.removed[key] = None
        elif key in self.added:
            del self.added[key]
        elif key in self.removed:
            raise DivergedError(self._name, "a row is removed that is not there")
        else:
            self.removed[key] = None

    def touched(self) -> list[Key]:
        """Return the keys of all rows that are removed or added."""
        return list({**self.removed, **dict.fromkeys(self.added)})


class NetCounts(dict[Row, int]):
    """Net changes of a table without key: by how many each different row becomes more; fewer: below 0."""

    def insert(self, row: Row) -> None:
        """Add a row."""
        self[row] = self.get(row, 0) + 1

    def delete(self, row: Row) -> None:
        """Remove a row."""
        self[row] = self.get(row, 0) - 1

    def fewer(self) -> Iterator[tuple[Row, int]]:
        """Return the rows that become fewer, and by how many."""
        return ((row, -count) for row, count in self.items() if count < 0)

    def more(self) -> Iterator[Row]:
        """Yield the rows to add, each as often as it becomes more."""
        for row, count in self.items():
            for _ in range(count):
                yield row


class SignedCounts(NetCounts[Values]):
    """Net changes of a table without key in which ``-0.0`` differs from ``0.0``, unlike in Python.

    Args:
        reals: indexes of the columns of floating-point numbers.
    """

    def __init__(self, reals: Sequence[int]) -> None:
        super().__init__()
        self._reals = reals

    def insert(self, row: Values) -> None:
        """Count a row that was added."""
        super().insert(self._marked(row))

    def delete(self, row: Values) -> None:
        """Count a row that was removed."""
        super().delete(self._marked(row))

    def fewer(self) -> Iterator[tuple[Values, int]]:
        """Yield the rows to remove, each with how often."""
        return ((_unmarked(row), count) for row, count in super().fewer())

    def more(self) -> Iterator[Values]:
        """Yield the rows to add."""
        return map(_unmarked, super().more())

    def _marked(self, row: Values) -> Values:
        marked = [at for at in self._reals if row[at] == 0 and copysign(1, row[at]) < 0]
        if not marked:
            return row
        return tuple(_NEGATIVE_ZERO if at in marked else value for at, value in enumerate(row))


def _unmarked(row: Values) -> Values:
    if not any(value is _NEGATIVE_ZERO for value in row):
        return row
    return tuple(-0.0 if value is _NEGATIVE_ZERO else value for value in row)


class NetChanges:
    """The changes of one table that are not applied yet.

    Args:
        model: the table as the mirror has it.
        strict: see :class:`NetByKey`.

    Attributes:
        model: as given.
        strict: as given.
        by_key: of a table with a primary key.
        counts: of a table without.
        patches: updates that tell only some columns: key, column indexes, values; in order, after
            the others.
        size: how many changes were taken.
    """

    def __init__(self, model: TableModel, *, strict: bool) -> None:
        self.model = model
        names = model.column_names
        self._key = tuple(names.index(name) for name, _ in model.primary_key)
        self.strict = strict
        self.by_key: NetByKey[Values, Values] = NetByKey(self.name, strict=strict)
        reals = [at for at, one in enumerate(model.columns) if one.kind in REALS]
        self.counts: NetCounts[Values] = SignedCounts(reals) if reals else NetCounts()
        self.patches: list[tuple[Values, tuple[int, ...], Values]] = []
        self._patched: set[Values] = set()
        self.size = 0

    @property
    def name(self) -> str:
        """The table's name, for messages."""
        return f"{self.model.database}.{self.model.name}"

    @property
    def table(self) -> tuple[str, str]:
        """Database and name."""
        return self.model.database, self.model.name

    @property
    def keyed(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self._key)

    @property
    def key(self) -> tuple[int, ...]:
        """Indexes of the key's columns."""
        return self._key

    def key_of(self, row: Values) -> Values:
        """Return the key of a row.

        Raises:
            SinkError: the row image lacks a column of the key.
        """
        key = tuple(row[at] for at in self._key)
        if ABSENT in key:
            raise SinkError(
                f"{self.name}: a row image has no primary key; set binlog_row_image=FULL"
            )
        return key

    def needs_flush(self, before: Values | None, after: Values | None) -> bool:
        """Return whether pending changes must be applied before this change can be taken."""
        if not self._patched or not self._key:
            return False
        if before is not None and self.key_of(before) in self._patched and after is None:
            return True
        if after is None:
            return False
        if before is None:
            return self.key_of(after) in self._patched
        return ABSENT not in after and self.key_of(before) in self._patched

    def insert(self, row: Values) -> None:
        """Add a row.

        Raises:
            SinkError: a column is missing.
        """
        self.size += 1
        self._complete(row)
        if not self._key:
            self.counts.insert(row)
            return
        self.by_key.insert(self.key_of(row), row)

    def delete(self, row: Values) -> None:
        """Remove a row.

        Raises:
            SinkError: a column is missing.
        """
        self.size += 1
        if not self._key:
            self._complete(row)
            self.counts.delete(row)
            return
        self.by_key.delete(self.key_of(row))

    def update(self, before: Values, after: Values) -> bool:
        """Change a row, and return whether all changes must be applied before the next one is taken.

        Raises:
            SinkError: a column that is needed is missing.
        """
        if ABSENT in after:
            known = self.by_key.added.get(self.key_of(before), before) if self._key else before
            if ABSENT in known:
                return self._patch(before, after)
            after = tuple(
                old if new is ABSENT else new for old, new in zip(known, after, strict=True)
            )
        self.delete(before)
        self.insert(after)
        self.size -= 1
        return False

    def _patch(self, before: Values, after: Values) -> bool:
        if not self._key:
            self._complete(before)
        self.size += 1
        key = self.key_of(before)
        present = tuple(at for at, value in enumerate(after) if value is not ABSENT)
        self.patches.append((key, present, tuple(after[at] for at in present)))
        self._patched.add(key)
        return any(
            at in present and after[at] != value for at, value in zip(self._key, key, strict=True)
        )

    def _complete(self, row: Values) -> None:
        if tuple.__contains__(row, ABSENT):  # `in` asks a Row for a name
            raise SinkError(
                f"{self.name}: a row image lacks columns whose values are needed: {WHY_ABSENT}; set "
                "binlog_row_image=FULL on the source, or leave such a column out (drop in the sink's transforms)"
            )

    def patch_groups(self) -> Iterator[tuple[tuple[int, ...], list[tuple[Values, Values]]]]:
        """Patches that follow one another and set the same columns: columns, then values and key."""
        group: list[tuple[Values, Values]] = []
        columns: tuple[int, ...] = ()
        for key, present, values in self.patches:
            if present != columns and group:
                yield columns, group
                group = []
            columns = present
            group.append((values, key))
        if group:
            yield columns, group


def same_names(model: TableModel, names: Sequence[str]) -> bool:
    """Return whether a table has these columns, in order."""
    return tuple(name.lower() for name in model.column_names) == tuple(
        name.lower() for name in names
    )
