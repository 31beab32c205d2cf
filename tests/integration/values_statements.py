"""Random statements over random tables: every way in which rows change."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.integration.values_documents import json_change
from tests.integration.values_kinds import Draws, quoted_name
from tests.integration.values_tables import Column, Table


@dataclass(frozen=True)
class Group:
    """Statements whose changes are compared together."""

    name: str
    statements: tuple[str, ...]


class Statements:
    """Statements for the tables of one scene."""

    def __init__(self, draws: Draws, tables: list[Table], *, partial_json: bool) -> None:
        self.draws = draws
        self.rng = draws.rng
        self.tables = tables
        self._partial_json = partial_json
        self._single: tuple[Callable[[Table], str], ...] = (
            self.insert,
            self.update,
            self.update,
            self.update_many,
            self.delete,
            self.replace,
            self.insert_on_duplicate,
            self.insert_select,
            self.insert_some_columns,
            self.update_id,
        )

    def fill(self, table: Table, count: int) -> Group:
        """Rows to begin with."""
        return Group("insert", (self.insert(table, count),))

    def group(self) -> Group:
        """One statement, or a transaction."""
        rng = self.rng
        transactional = [table for table in self.tables if table.engine == "InnoDB"]
        if transactional and rng.random() < 0.25:
            return self.transaction(transactional)
        if len(self.tables) > 1 and rng.random() < 0.2:
            make = rng.choice((self.update_join, self.delete_join))
            return Group(make.__name__, (make(),))
        chosen = rng.choice(self._single)
        return Group(chosen.__name__, (chosen(rng.choice(self.tables)),))

    def transaction(self, tables: list[Table]) -> Group:
        rng = self.rng
        statements = ["BEGIN"]
        for _ in range(rng.randint(1, 4)):
            statements.append(rng.choice(self._single)(rng.choice(tables)))
        name = "transaction"
        if rng.random() < 0.5:
            name = "rollback to savepoint"
            statements.append("SAVEPOINT `s é`")
            for _ in range(rng.randint(1, 3)):
                statements.append(rng.choice(self._single)(rng.choice(tables)))
            statements.append("ROLLBACK TO SAVEPOINT `s é`")
            if rng.random() < 0.5:
                statements.append(rng.choice(self._single)(rng.choice(tables)))
        if rng.random() < 0.15:
            name = "rollback"
        statements.append("ROLLBACK" if name == "rollback" else "COMMIT")
        return Group(name, tuple(statements))

    def _literal(self, column: Column) -> str:
        if not column.not_null and self.rng.random() < 0.12:
            return "NULL"
        return column.kind.literal(self.rng)

    def _rows(self, table: Table, columns: list[Column], ids: list[int]) -> str:
        names = ", ".join(["id", *(column.sql_name for column in columns)])
        rows = ", ".join(
            f"({', '.join([str(i), *(self._literal(column) for column in columns)])})" for i in ids
        )
        return f"INTO {table.sql_name} ({names}) VALUES {rows}"

    def _new_ids(self, table: Table, count: int) -> list[int]:
        table.last_id += count
        return list(range(table.last_id - count + 1, table.last_id + 1))

    def _some_ids(self, table: Table, most: int) -> list[int]:
        known = table.ids
        return self.rng.sample(known, min(len(known), self.rng.randint(1, most)))

    def _where(self, table: Table, most: int) -> str:
        ids = ", ".join(map(str, self._some_ids(table, most))) or "0"
        return f"{table.sql_name}.id IN ({ids})"

    def _assignments(self, table: Table) -> str:
        rng = self.rng
        columns = table.writable
        if not columns:
            return "id = id"
        chosen = rng.sample(columns, rng.randint(1, min(3, len(columns))))
        parts = [column for column in columns if column.kind.is_json and column not in chosen]
        if self._partial_json and parts and rng.random() < 0.7:
            chosen.append(rng.choice(parts))
        found = []
        for column in chosen:
            name = f"{table.sql_name}.{column.sql_name}"
            if column.kind.is_json and rng.random() < 0.8:
                value = json_change(rng, name)
            else:
                value = self._literal(column)
            found.append(f"{name} = {value}")
        return ", ".join(found)

    def insert(self, table: Table, count: int = 0) -> str:
        ids = self._new_ids(table, count or self.rng.randint(1, 6))
        return "INSERT " + self._rows(table, table.writable, ids)

    def insert_some_columns(self, table: Table) -> str:
        columns = table.writable
        chosen = self.rng.sample(columns, self.rng.randint(0, len(columns)))
        return "INSERT IGNORE " + self._rows(table, chosen, self._new_ids(table, 2))

    def update(self, table: Table) -> str:
        return (
            f"UPDATE {table.sql_name} SET {self._assignments(table)} WHERE {self._where(table, 2)}"
        )

    def update_documents(self, table: Table) -> Group | None:
        """Changes in parts of a column's JSON documents; None for a table without any."""
        columns = [column for column in table.writable if column.kind.is_json]
        if not columns:
            return None
        name = self.rng.choice(columns).sql_name
        sql = f"UPDATE {table.sql_name} SET {name} = {json_change(self.rng, name)}"
        return Group("update_documents", (f"{sql} WHERE {self._where(table, 12)}",))

    def update_many(self, table: Table) -> str:
        limit = self.rng.randint(2, 15)
        return (
            f"UPDATE {table.sql_name} SET {self._assignments(table)} ORDER BY id DESC LIMIT {limit}"
        )

    def update_id(self, table: Table) -> str:
        ids = self._some_ids(table, 2)
        cases = " ".join(
            f"WHEN {old} THEN {new}"
            for old, new in zip(ids, self._new_ids(table, len(ids)), strict=True)
        )
        if not ids:
            return self.insert(table)
        listed = ", ".join(map(str, ids))
        return f"UPDATE {table.sql_name} SET id = CASE id {cases} END WHERE id IN ({listed})"

    def delete(self, table: Table) -> str:
        if self.rng.random() < 0.3:
            return f"DELETE FROM {table.sql_name} ORDER BY id LIMIT {self.rng.randint(1, 4)}"
        return f"DELETE FROM {table.sql_name} WHERE {self._where(table, 4)}"

    def _ids_old_and_new(self, table: Table) -> list[int]:
        # Without a key an old id would be there twice.
        old = self._some_ids(table, 3) if table.keyed else []
        return old + self._new_ids(table, 2)

    def replace(self, table: Table) -> str:
        return "REPLACE " + self._rows(table, table.writable, self._ids_old_and_new(table))

    def insert_on_duplicate(self, table: Table) -> str:
        rows = self._rows(table, table.writable, self._ids_old_and_new(table))
        return f"INSERT {rows} ON DUPLICATE KEY UPDATE {self._assignments(table)}"

    def insert_select(self, table: Table) -> str:
        base = table.last_id
        table.last_id = base * 2
        names = ", ".join(["id", *(column.sql_name for column in table.writable)])
        sources = names.replace("id", f"id + {base}", 1)
        return (
            f"INSERT INTO {table.sql_name} ({names}) SELECT {sources} FROM {table.sql_name}"
            f" WHERE {self._where(table, 8)}"
        )

    def update_join(self) -> str:
        one, two = self.tables[:2]
        return (
            f"UPDATE {one.sql_name} JOIN {two.sql_name} ON {one.sql_name}.id = {two.sql_name}.id"
            f" SET {_set(one, self._assignments(one))}, {_set(two, self._assignments(two))}"
            f" WHERE {self._where(one, 8)}"
        )

    def delete_join(self) -> str:
        one, two = self.tables[:2]
        names = self.rng.choice((f"{one.sql_name}, {two.sql_name}", two.sql_name))
        return (
            f"DELETE {names} FROM {one.sql_name} JOIN {two.sql_name}"
            f" ON {one.sql_name}.id = {two.sql_name}.id WHERE {self._where(one, 4)}"
        )

    def triggers(self, table: Table, audit: Table) -> list[str]:
        """Statements that make triggers: one changes the row, one writes to another table."""
        made = []
        columns = table.writable
        # MySQL 9.7 logs the differences of the statement though a trigger put another document.
        plain = [column for column in columns if not column.kind.is_json]
        if plain:
            column = self.rng.choice(plain)
            made.append(
                f"CREATE TRIGGER {quoted_name(table.name + '_b')} BEFORE UPDATE ON {table.sql_name} FOR EACH ROW"
                f" SET NEW.{column.sql_name} = {column.kind.literal(self.rng)}"
            )
        names = ", ".join(["id", *(column.sql_name for column in columns)])
        values = ", ".join(["NEW.id", *(f"NEW.{column.sql_name}" for column in columns)])
        made.append(
            f"CREATE TRIGGER {quoted_name(table.name + '_a')} AFTER INSERT ON {table.sql_name} FOR EACH ROW"
            f" INSERT INTO {audit.sql_name} ({names}) VALUES ({values})"
        )
        return made[::-1]


def _set(table: Table, assignments: str) -> str:
    return f"{table.sql_name}.id = {table.sql_name}.id" if assignments == "id = id" else assignments
