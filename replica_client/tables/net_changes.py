"""What many changes of a table come to: which rows must go, and which must be there.

A table with a primary key has at most one row to remove and one to add per key. One without has a
number for each different row: how many more or fewer of it there must be. Either way the order of
changes needs no keeping: everything is committed at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from replica_client.errors import SinkError
from replica_client.rows.absent import ABSENT
from replica_client.schema.model import TableModel

Values = tuple[Any, ...]
"""A row, or a key, as the mirror stores it."""


class DivergedError(SinkError):
    """A table of the mirror is not what the source's was before a change."""

    def __init__(self, table: str, what: str) -> None:
        super().__init__(
            f"{table}: {what}: the mirror is not what the source's table was (it was changed by others, "
            "did not begin with the source's rows, or foreign keys cascaded, which no binlog tells); "
            "empty the mirror and begin anew, or set missing_rows = 'ignore'"
        )


class NetChanges:
    """The changes of one table that are not applied yet.

    Args:
        model: the table as the mirror has it.
        strict: a row that is added twice, or removed twice, is an error; otherwise rows may be there
            before or not, whatever was done to them.

    Attributes:
        model: as given.
        strict: as given.
        removed: keys of rows to remove, that are there before.
        added: rows to add afterwards, by key.
        counts: of a table without key: by how many a row becomes more (fewer: below 0).
        patches: updates that tell only some columns: key, column indexes, values; in order, after
            the others.
        size: how many changes were taken.
    """

    def __init__(self, model: TableModel, *, strict: bool) -> None:
        self.model = model
        names = model.column_names
        self._key = tuple(names.index(name) for name, _ in model.primary_key)
        self.strict = strict
        self.removed: dict[Values, None] = {}
        self.added: dict[Values, Values] = {}
        self.counts: dict[Values, int] = {}
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
        """The key of a row.

        Raises:
            SinkError: the row image left a column of it out.
        """
        key = tuple(row[at] for at in self._key)
        if ABSENT in key:
            raise SinkError(
                f"{self.name}: a row image has no primary key; set binlog_row_image=FULL"
            )
        return key

    def needs_flush(self, before: Values | None, after: Values | None) -> bool:
        """Whether what is pending must be applied before this change can be taken."""
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
        """A row was added.

        Raises:
            SinkError: a column is not there.
        """
        self.size += 1
        self._complete(row)
        if not self._key:
            self.counts[row] = self.counts.get(row, 0) + 1
            return
        key = self.key_of(row)
        if self.strict and key in self.added:
            raise DivergedError(self.name, "a row is added that is there")
        self.added[key] = row

    def delete(self, row: Values) -> None:
        """A row was removed.

        Raises:
            SinkError: a column is not there.
        """
        self.size += 1
        if not self._key:
            self._complete(row)
            self.counts[row] = self.counts.get(row, 0) - 1
            return
        key = self.key_of(row)
        if not self.strict:
            # It may have been there before it was added.
            self.added.pop(key, None)
            self.removed[key] = None
        elif key in self.added:
            del self.added[key]
        elif key in self.removed:
            raise DivergedError(self.name, "a row is removed that is not there")
        else:
            self.removed[key] = None

    def update(self, before: Values, after: Values) -> bool:
        """A row was changed; whether all must be applied before anything else is taken.

        Raises:
            SinkError: a column that is needed is not there.
        """
        if ABSENT in after:
            known = self.added.get(self.key_of(before), before) if self._key else before
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
                f"{self.name}: a row image lacks columns whose values are needed; set "
                "binlog_row_image=FULL on the source"
            )

    def fewer(self) -> Iterator[tuple[Values, int]]:
        """Rows of a table without key that become fewer, and by how many."""
        return ((row, -count) for row, count in self.counts.items() if count < 0)

    def more(self) -> Iterator[Values]:
        """Rows to add to a table without key."""
        for row, count in self.counts.items():
            for _ in range(count):
                yield row

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
    """Whether a table has these columns, in order."""
    return tuple(name.lower() for name in model.column_names) == tuple(
        name.lower() for name in names
    )
