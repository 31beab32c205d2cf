"""The base of a mirror's database that changes rows by parameterized statements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from replica_client.schema.kinds import REALS
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.stream.tables.net_changes import Values


class StatementDatabase(MirrorDatabase):
    """Applies net changes by INSERT, UPDATE and DELETE; subclasses add the dialect."""

    @abstractmethod
    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement for each row of values, and return the number of affected rows."""

    def value(self, column: ColumnModel) -> str:
        """Return the SQL for a column's value in a statement."""
        return self.mark

    @abstractmethod
    def same(self, column: ColumnModel) -> str:
        """Return the condition that a column equals a value, which may be NULL."""

    @abstractmethod
    def replaced(self, model: TableModel, key: Sequence[int]) -> str:
        """Return the statement that adds a row in place of any with its key."""

    @abstractmethod
    def row_number(self, model: TableModel) -> str | None:
        """Return the expression that tells equal rows apart; None if there is none."""

    def put(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        *keys, column = columns
        marks = ", ".join([self.mark] * len(columns))
        self.change(
            f"INSERT INTO {table} VALUES ({marks}) "
            f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {column} = excluded.{column}",
            values,
        )

    def change_rows(
        self,
        model: TableModel,
        key: Sequence[int],
        removed: Collection[Values],
        added: Mapping[Values, Values],
        *,
        strict: bool,
    ) -> int:
        """Apply net changes; see the base.

        A replaced row is updated, so that columns that the operator added keep their values.
        """
        same = [one for one in removed if one in added] if strict else []
        if not same:
            return super().change_rows(model, key, removed, added, strict=strict)
        # A key can change from 0.0 to -0.0 and still be equal.
        signed = any(model.columns[at].kind in REALS for at in key)
        rest = [at for at in range(len(model.columns)) if signed or at not in key]
        if rest:
            done = self.patch(
                model, key, rest, [(tuple(added[one][at] for at in rest), one) for one in same]
            )
        else:
            done = self.count(model, key, same)
        if done != len(same):
            return done
        known = set(same)
        gone = [one for one in removed if one not in known]
        new = {one: row for one, row in added.items() if one not in known}
        return done + super().change_rows(model, key, gone, new, strict=strict)

    def count(self, model: TableModel, key: Sequence[int], keys: Collection[Values]) -> int:
        """Return how many of some keys exist."""
        query = f"SELECT 1 FROM {self._of(model)} WHERE {self._has(model, key)}"
        return sum(1 for one in keys for _ in self.rows(query, one))

    def remove(self, model: TableModel, key: Sequence[int], keys: Collection[Values]) -> int:
        return self.change_many(
            f"DELETE FROM {self._of(model)} WHERE {self._has(model, key)}", keys
        )

    def put_rows(self, model: TableModel, key: Sequence[int], rows: Collection[Values]) -> None:
        self.change_many(self.replaced(model, key), rows)

    def patch(
        self,
        model: TableModel,
        key: Sequence[int],
        patched: Sequence[int],
        rows: Sequence[tuple[Values, Values]],
    ) -> int:
        columns = [model.columns[at] for at in patched]
        sets = ", ".join(f"{self.quoted(one.name)} = {self.value(one)}" for one in columns)
        return self.change_many(
            f"UPDATE {self._of(model)} SET {sets} WHERE {self._has(model, key)}",
            [(*values, *before) for values, before in rows],
        )

    def take_away(self, model: TableModel, counts: Collection[tuple[Values, int]]) -> int:
        table, number = self._of(model), self.row_number(model)
        where = " AND ".join(self.same(column) for column in model.columns)
        if number is not None:
            some = f"SELECT {number} FROM {table} WHERE {where} LIMIT {self.mark}"
            sql = f"DELETE FROM {table} WHERE {number} IN ({some})"
            return sum(self.change(sql, (*row, count)) for row, count in counts)
        done = 0
        for row, count in counts:
            # Delete all equal rows, and insert the remaining ones again.
            found = self.change(f"DELETE FROM {table} WHERE {where}", row)
            self.insert(table, model, [row] * (found - count))
            done += min(found, count)
        return done

    def _of(self, model: TableModel) -> str:
        return self.table((model.database, model.name))

    def _has(self, model: TableModel, key: Sequence[int]) -> str:
        columns = [model.columns[at] for at in key]
        return " AND ".join(f"{self.quoted(one.name)} = {self.value(one)}" for one in columns)
