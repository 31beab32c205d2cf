"""Random statements that change what tables are; those that a server refuses do not count."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql

from tests.servers.server import Server

CHARSETS = ("utf8mb4", "latin1", "utf8", "cp1251", "ucs2", "gbk", "ascii", "binary")
NAMES = ("a", "B", "c c", "select", "größe", "d-e", "f`g", "first", "key", "period", "x1", "vector")


@dataclass
class Col:
    """A column as information_schema lists it."""

    name: str
    type: str
    charset: str | None
    generated: bool
    nullable: bool

    @property
    def base(self) -> str:
        return self.type.split("(")[0].split()[0].lower()


def q(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class Ddl:
    """Runs random statements in one pair of databases.

    Attributes:
        done: how often each kind of statement was done.
    """

    def __init__(self, server: Server, connection: Any, database: str, rng: random.Random) -> None:
        self.server, self.connection, self.rng = server, connection, rng
        self.database, self.other = database, database + "b"
        self.mysql = server.flavor == "mysql"
        self.version = server.version
        self.done: dict[str, int] = {}
        self.counter = 0
        self.mode = "''"

    def run(self, sql: str) -> bool:
        """Run a statement; False when the server refuses it."""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql)
            return True
        except (pymysql.err.MySQLError, UnicodeError):
            return False

    def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, args or None)
            return [tuple(_text(v) for v in row) for row in cursor.fetchall()]

    def start(self) -> None:
        charset = self.rng.choice(CHARSETS[:5])
        self.run(f"DROP DATABASE IF EXISTS {self.database}")
        self.run(f"DROP DATABASE IF EXISTS {self.other}")
        self.run(f"CREATE DATABASE {self.database} DEFAULT CHARACTER SET {charset}")
        self.run(f"CREATE SCHEMA IF NOT EXISTS {self.other}")
        self.connection.select_db(self.database)
        for _ in range(2):
            self.create_table()

    def step(self) -> None:
        """One random statement, or several that belong together."""
        if self.rng.random() < 0.05:
            self.session()
        if self.rng.random() < 0.03:
            self.run("FLUSH BINARY LOGS")
        if not self.tables():
            self.create_table()
            return
        kinds = self.kinds()
        for _ in range(8):
            if not self.tables():
                return  # a part of a statement dropped the last one
            name = self.rng.choice(kinds)
            statements = getattr(self, name)()
            if statements is None:
                continue
            if isinstance(statements, str):
                statements = [statements]
            worked = [self.run(one) for one in statements]
            if all(worked):
                self.done[name] = self.done.get(name, 0) + 1
                return

    def kinds(self) -> list[str]:
        found = [name for name in dir(self) if name.startswith("ddl_")]
        if self.mysql:
            found = [name for name in found if not name.startswith("ddl_maria_")]
            if self.version < (8, 0):
                found = [name for name in found if not name.startswith("ddl_eight_")]
        else:
            found = [name for name in found if not name.startswith("ddl_eight_")]
        return found

    def session(self) -> None:
        modes = ["''", "'ANSI_QUOTES'", "'NO_BACKSLASH_ESCAPES'", "'STRICT_ALL_TABLES'"]
        self.mode = self.rng.choice(modes)
        self.run(f"SET sql_mode = {self.mode}")

    # What is there.

    def tables(self) -> list[tuple[str, str]]:
        return [
            (a, b)
            for a, b in self.ask(
                "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA"
                " IN (%s, %s) AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
                " ORDER BY 1, 2",
                self.database,
                self.other,
            )
        ]

    def columns(self, table: tuple[str, str]) -> list[Col]:
        modern = not self.mysql or self.version >= (5, 7)
        expression = "COALESCE(GENERATION_EXPRESSION, '')" if modern else "''"
        return [
            Col(name, kind, charset, bool(expr), nullable == "YES")
            for name, kind, charset, expr, nullable in self.ask(
                f"SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, {expression}, IS_NULLABLE"
                " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
                " ORDER BY ORDINAL_POSITION",
                *table,
            )
        ]

    def table(self) -> tuple[str, str]:
        return self.rng.choice(self.tables())

    def path(self, table: tuple[str, str]) -> str:
        if table[0] == self.database and self.rng.random() < 0.6:
            return q(table[1])
        return f"{q(table[0])}.{q(table[1])}"

    def fresh(self, prefix: str = "t") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def new_name(self, taken: list[str]) -> str:
        lower = {name.lower() for name in taken}
        for _ in range(5):
            name = self.rng.choice(NAMES)
            if name.lower() not in lower:
                return name
        return self.fresh("c")

    def charset(self) -> str:
        return self.rng.choice(CHARSETS[:7])

    # Definitions.

    def label(self) -> str:
        text = self.rng.choice(("a", "bb", "x y", "ä", "it''s", "3", "A,B", "", "ж", "q;--"))
        return f"'{text}{self.rng.randrange(100)}'".replace(",", "_")

    def type(self) -> str:
        rng = self.rng
        whole = rng.choice(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT", "INT4"))
        text = rng.choice(
            (
                f"VARCHAR({rng.choice((3, 40, 80, 300))})",
                f"CHAR({rng.choice((1, 20, 100))})",
                "TEXT",
                "TINYTEXT",
                f"TEXT({rng.choice((50, 100, 300, 70000))})",
                "MEDIUMTEXT",
                f"NATIONAL VARCHAR({rng.choice((5, 50))})",
                "NCHAR(7)",
                "LONG VARCHAR",
                f"CHARACTER VARYING({rng.choice((5, 50))})",
            )
        )
        if "N" not in text[:2]:
            extra = rng.random()
            if extra < 0.3:
                text += f" CHARACTER SET {rng.choice(CHARSETS)}"
            elif extra < 0.4:
                text += " COLLATE utf8mb4_bin"
            elif extra < 0.45:
                text += " BINARY"
            elif extra < 0.5 and "(" in text:
                text += " CHARSET latin1 COLLATE latin1_german2_ci"
        labels = list(dict.fromkeys(self.label() for _ in range(rng.choice((1, 3, 9, 20)))))
        charset = f" CHARACTER SET {rng.choice(CHARSETS[:2])}" if rng.random() < 0.3 else ""
        choices = [
            whole + rng.choice(("", "", " UNSIGNED", " UNSIGNED ZEROFILL")),
            whole + rng.choice(("", "(5)", " UNSIGNED")),
            text,
            text,
            f"DECIMAL({rng.choice((5, 12, 30))},{rng.choice((0, 2, 5))})"
            + rng.choice(("", " UNSIGNED")),
            rng.choice(("NUMERIC", "DEC(7)", "FIXED(9,3)", "BOOLEAN", "BOOL", "BIT", "BIT(13)")),
            f"ENUM({', '.join(labels)}){charset}",
            f"SET({', '.join(labels)}){charset}",
            rng.choice(("DATE", "YEAR", "TIME", "DATETIME", "TIME(3)", "DATETIME(6)")),
            rng.choice(
                ("TIMESTAMP NULL", "TIMESTAMP(2) NULL", "DATETIME DEFAULT CURRENT_TIMESTAMP")
            ),
            rng.choice(
                ("VARBINARY(50)", "BINARY(9)", "BLOB", "TINYBLOB", "BLOB(300)", "LONG VARBINARY")
            ),
            rng.choice(("DOUBLE", "FLOAT", "REAL", "DOUBLE PRECISION", "FLOAT(30)", "FLOAT(7,3)")),
        ]
        if not self.mysql:
            choices.append(
                rng.choice(("UUID", "INET6", "JSON", "VARCHAR(50) COMPRESSED", "BLOB COMPRESSED"))
            )
        elif self.version >= (8, 0):
            choices.append("JSON")
        return rng.choice(choices)

    def attributes(self, kind: str) -> str:
        rng = self.rng
        found = []
        if "NULL" not in kind and rng.random() < 0.25:
            found.append("NOT NULL")
        if rng.random() < 0.2:
            found.append(
                "COMMENT " + rng.choice(("'x'", "'drop column a, b'", "'it''s, (('", "'ü'"))
            )
        if rng.random() < 0.1 and not any(t in kind for t in ("TEXT", "BLOB", "JSON", "LONG")):
            found.append("UNIQUE")
        if rng.random() < 0.1 and self.visibility:
            found.append("INVISIBLE")
        rng.shuffle(found)
        return " ".join(found)

    @property
    def visibility(self) -> bool:
        return self.version >= ((8, 0, 23) if self.mysql else (10, 3))

    def definition(self, name: str) -> str:
        kind = self.type()
        return f"{q(name)} {kind} {self.attributes(kind)}"

    def generated(self, name: str, columns: list[Col]) -> str | None:
        if self.mysql and self.version < (5, 7):
            return None
        numbers = [
            c for c in columns if c.base in ("int", "smallint", "tinyint") and not c.generated
        ]
        if not numbers:
            return None
        how = self.rng.choice(("VIRTUAL", "STORED", ""))
        words = self.rng.choice(("GENERATED ALWAYS AS", "AS"))
        return f"{q(name)} BIGINT {words} ({q(self.rng.choice(numbers).name)} + 1) {how}"

    def create_table(self, name: str | None = None, head: str = "CREATE TABLE") -> None:
        for _ in range(10):
            if self.run(self.create_text(name, head)):
                self.done["create_table"] = self.done.get("create_table", 0) + 1
                return

    def create_text(self, name: str | None = None, head: str = "CREATE TABLE") -> str:
        rng = self.rng
        names: list[str] = []
        for _ in range(rng.randint(1, 6)):
            names.append(self.new_name(names))
        parts = [self.definition(one) for one in names]
        key = rng.random()
        if key < 0.3:
            parts.insert(0, "`id` INT AUTO_INCREMENT PRIMARY KEY")
        elif key < 0.5:
            parts.append(
                "`id` INT UNSIGNED, `k` CHAR(3) DEFAULT 'x', PRIMARY KEY USING BTREE (`k`, `id` DESC)"
            )
            if self.mysql and self.version < (8, 0):
                parts[-1] = parts[-1].replace(" DESC", "")
        elif key < 0.6:
            parts.append("id SERIAL")
        if rng.random() < 0.2:
            parts.append("CONSTRAINT ck CHECK (1 = 1)")
        options = rng.choice(
            (
                "",
                "",
                f" DEFAULT CHARSET={self.charset()}",
                f" CHARACTER SET {self.charset()} COMMENT='CHARSET=big5'",
                " ENGINE=InnoDB COLLATE latin1_swedish_ci ROW_FORMAT=DYNAMIC",
                " /*!50100 DEFAULT CHARACTER SET = ucs2 */",
                " /*!999999 DEFAULT CHARACTER SET = big5 */ STATS_PERSISTENT=0",
            )
        )
        if not self.mysql and rng.random() < 0.15:
            options += " WITH SYSTEM VERSIONING"
        comment = rng.choice(("", "/* create table nothing (a int) */ ", "-- x\n", "# y\n"))
        database = rng.choice((self.database, self.database, self.other))
        table = name or f"{q(database)}.{q(self.fresh())}"
        sql = f"{head} {table} ({', '.join(parts)}){options}"
        if "ANSI_QUOTES" in self.mode and rng.random() < 0.5 and "``" not in sql and '"' not in sql:
            sql = sql.replace("`", '"')
        return comment + sql

    # Statements.

    def ddl_create_if_not_exists(self) -> str:
        return self.create_text(self.path(self.table()), "CREATE TABLE IF NOT EXISTS")

    def ddl_create_new(self) -> str:
        return self.create_text()

    def ddl_create_like(self) -> str:
        new = self.fresh()
        return self.rng.choice(
            (
                f"CREATE TABLE {q(new)} LIKE {self.path(self.table())}",
                f"CREATE TABLE IF NOT EXISTS {q(self.other)}.{q(new)} (LIKE {self.path(self.table())})",
            )
        )

    def ddl_create_select(self) -> str | None:
        return self.select_of(self.table())

    def select_of(self, table: tuple[str, str]) -> str:
        return self.rng.choice(
            (
                f"CREATE TABLE {q(self.fresh())} SELECT * FROM {self.path(table)}",
                f"CREATE TABLE {q(self.fresh())} (z INT, y VARCHAR(5)) CHARSET latin1"
                f" AS SELECT t.*, 1 + 1 AS two, 'ä' AS y FROM {self.path(table)} AS t",
            )
        )

    def ddl_maria_create_or_replace(self) -> str:
        return self.create_text(self.path(self.table()), "CREATE OR REPLACE TABLE")

    def ddl_temporary(self) -> list[str]:
        table = self.path(self.table())
        return [
            f"CREATE TEMPORARY TABLE {table} (tmp INT)",
            f"ALTER TABLE {table} ADD COLUMN tmp2 INT FIRST",
            f"INSERT INTO {table} VALUES (1, 2)",
            f"DROP TEMPORARY TABLE {table}",
        ]

    def alter(self, clauses: str, table: tuple[str, str]) -> str:
        words = "ALTER TABLE"
        if not self.mysql:
            words = self.rng.choice(("ALTER TABLE", "ALTER TABLE IF EXISTS", "ALTER ONLINE TABLE"))
            if self.rng.random() < 0.1:
                words = "SET STATEMENT lock_wait_timeout=10 FOR ALTER TABLE"
            if self.rng.random() < 0.1:
                words = "ALTER IGNORE TABLE"
        return f"{words} {self.path(table)} {clauses}"

    def _add(self, position: Callable[[list[Col]], str]) -> str:
        table = self.table()
        columns = self.columns(table)
        column = self.definition(self.new_name([c.name for c in columns]))
        word = self.rng.choice(("ADD", "ADD COLUMN", "add column"))
        return self.alter(f"{word} {column}{position(columns)}", table)

    def ddl_add_last(self) -> str:
        return self._add(lambda columns: "")

    def ddl_add_first(self) -> str:
        return self._add(lambda columns: " FIRST")

    def ddl_add_after(self) -> str:
        return self._add(lambda columns: f" AFTER {q(self.rng.choice(columns).name)}")

    def ddl_add_brackets(self) -> str:
        table = self.table()
        names = [c.name for c in self.columns(table)]
        first = self.new_name(names)
        second = self.new_name([*names, first])
        return self.alter(f"ADD ({self.definition(first)}, {self.definition(second)})", table)

    def ddl_add_generated(self) -> str | None:
        table = self.table()
        columns = self.columns(table)
        made = self.generated(self.new_name([c.name for c in columns]), columns)
        return None if made is None else self.alter(f"ADD COLUMN {made}", table)

    def ddl_drop_column(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table)).name
        return self.alter(f"{self.rng.choice(('DROP', 'DROP COLUMN'))} {q(column)}", table)

    def ddl_drop_several(self) -> str | None:
        table = self.table()
        columns = self.columns(table)
        if len(columns) < 4:
            return None
        one, two = self.rng.sample(columns, 2)
        return self.alter(f"DROP COLUMN {q(one.name)}, DROP {q(two.name)}", table)

    def ddl_modify(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table)).name
        return self.alter(f"MODIFY COLUMN {self.definition(column)}", table)

    def ddl_modify_column_position(self) -> str:
        table = self.table()
        columns = self.columns(table)
        column, other = self.rng.choice(columns), self.rng.choice(columns)
        position = self.rng.choice(("FIRST", f"AFTER {q(other.name)}"))
        return self.alter(f"MODIFY {q(column.name)} {column.type} NULL {position}", table)

    def ddl_change(self) -> str:
        table = self.table()
        columns = self.columns(table)
        column = self.rng.choice(columns)
        name = self.new_name([c.name for c in columns])
        position = self.rng.choice(("", " FIRST", f" AFTER {q(self.rng.choice(columns).name)}"))
        return self.alter(f"CHANGE {q(column.name)} {self.definition(name)}{position}", table)

    def ddl_change_name_only(self) -> str:
        table = self.table()
        columns = self.columns(table)
        column = self.rng.choice(columns)
        name = self.new_name([c.name for c in columns])
        return self.alter(f"CHANGE COLUMN {q(column.name)} {q(name)} {column.type}", table)

    def ddl_eight_rename_column(self) -> str:
        return self._rename_column()

    def ddl_maria_rename_column(self) -> str:
        return self._rename_column()

    def _rename_column(self) -> str:
        table = self.table()
        columns = self.columns(table)
        name = self.new_name([c.name for c in columns])
        return self.alter(f"RENAME COLUMN {q(self.rng.choice(columns).name)} TO {q(name)}", table)

    def ddl_swap_names(self) -> str | None:
        table = self.table()
        columns = self.columns(table)
        if len(columns) < 2:
            return None
        one, two = self.rng.sample(columns, 2)
        if self.mysql and self.version >= (8, 0) and self.rng.random() < 0.6:
            return self.alter(
                f"RENAME COLUMN {q(one.name)} TO {q(two.name)}, RENAME COLUMN {q(two.name)} TO {q(one.name)}",
                table,
            )
        return self.alter(
            f"CHANGE {q(one.name)} {q(two.name)} {one.type}, CHANGE {q(two.name)} {q(one.name)} {two.type}",
            table,
        )

    def ddl_many_clauses(self) -> str | None:
        table = self.table()
        columns = self.columns(table)
        if len(columns) < 4:
            return None
        one, two, three, four = self.rng.sample([c.name for c in columns], 4)
        new = self.new_name([c.name for c in columns])
        newer = self.new_name([*(c.name for c in columns), new])
        clauses = [
            f"ADD COLUMN {self.definition(new)} FIRST",
            f"DROP COLUMN {q(one)}",
            f"MODIFY {self.definition(two)} AFTER {q(three)}",
            f"ADD {self.definition(newer)} AFTER {q(new)}",
            f"CHANGE {q(four)} {self.definition(four + '_')} FIRST",
            "COMMENT 'several, and more'",
        ]
        self.rng.shuffle(clauses)
        return self.alter(", ".join(clauses), table)

    def ddl_set_default(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table))
        value = self.rng.choice(("1", "NULL", "'2001-01-01'", "''"))
        return self.alter(f"ALTER COLUMN {q(column.name)} SET DEFAULT {value}", table)

    def ddl_drop_default(self) -> str:
        table = self.table()
        return self.alter(
            f"ALTER {q(self.rng.choice(self.columns(table)).name)} DROP DEFAULT", table
        )

    def ddl_eight_visibility(self) -> str:
        table = self.table()
        word = self.rng.choice(("VISIBLE", "INVISIBLE"))
        return self.alter(
            f"ALTER COLUMN {q(self.rng.choice(self.columns(table)).name)} SET {word}", table
        )

    def ddl_convert(self) -> str:
        collation = self.rng.choice(("", "", " COLLATE utf8mb4_bin"))
        charset = "utf8mb4" if collation else self.charset()
        return self.alter(f"CONVERT TO CHARACTER SET {charset}{collation}", self.table())

    def ddl_default_charset(self) -> str:
        text = self.rng.choice(("DEFAULT CHARACTER SET = {}", "CHARSET {}", "DEFAULT CHARSET={}"))
        return self.alter(text.format(self.charset()), self.table())

    def ddl_default_collation(self) -> str:
        return self.alter("ENGINE=InnoDB COLLATE utf8mb4_unicode_ci", self.table())

    def ddl_default_charset_and_column(self) -> str:
        table = self.table()
        column = self.definition(self.new_name([c.name for c in self.columns(table)]))
        return self.alter(f"ADD COLUMN {column}, DEFAULT CHARSET={self.charset()}", table)

    def ddl_add_index(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table))
        prefix = "(3)" if column.base in ("text", "blob", "tinytext", "mediumtext") else ""
        what = self.rng.choice(("INDEX", "KEY `k 1`", "UNIQUE INDEX u", "UNIQUE"))
        return self.alter(f"ADD {what} ({q(column.name)}{prefix})", table)

    def ddl_create_index(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table))
        return f"CREATE INDEX {self.fresh('i')} ON {self.path(table)} ({q(column.name)})"

    def ddl_drop_index(self) -> str | None:
        table = self.table()
        keys = self.ask(
            "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s"
            " AND TABLE_NAME = %s AND INDEX_NAME <> 'PRIMARY'",
            *table,
        )
        if not keys:
            return None
        name = q(self.rng.choice(keys)[0])
        if self.rng.random() < 0.5:
            return f"DROP INDEX {name} ON {self.path(table)}"
        return self.alter(f"DROP {self.rng.choice(('INDEX', 'KEY'))} {name}", table)

    def ddl_add_primary_key(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table))
        return self.alter(f"ADD PRIMARY KEY ({q(column.name)})", table)

    def ddl_drop_primary_key(self) -> str:
        return self.alter("DROP PRIMARY KEY", self.table())

    def ddl_replace_primary_key(self) -> str:
        table = self.table()
        name = self.new_name([c.name for c in self.columns(table)])
        return self.alter(
            f"DROP PRIMARY KEY, ADD {q(name)} INT AUTO_INCREMENT PRIMARY KEY FIRST", table
        )

    def ddl_rename_table(self) -> str:
        return f"RENAME TABLE {self.path(self.table())} TO {q(self.fresh())}"

    def ddl_rename_swap(self) -> str | None:
        tables = self.tables()
        if len(tables) < 2:
            return None
        one, two = (f"{q(d)}.{q(t)}" for d, t in self.rng.sample(tables, 2))
        between = f"{q(self.database)}.{q(self.fresh('swap'))}"
        return f"RENAME TABLE {one} TO {between}, {two} TO {one}, {between} TO {two}"

    def ddl_alter_rename(self) -> str:
        word = self.rng.choice(("RENAME", "RENAME TO", "RENAME AS", "RENAME ="))
        return self.alter(f"{word} {q(self.fresh())}", self.table()).replace(
            "RENAME =", "RENAME TO"
        )

    def ddl_alter_rename_and_add(self) -> str:
        table = self.table()
        column = self.definition(self.new_name([c.name for c in self.columns(table)]))
        return self.alter(f"ADD {column}, RENAME TO {q(self.other)}.{q(self.fresh())}", table)

    def ddl_move_to_database(self) -> str:
        return f"RENAME TABLE {self.path(self.table())} TO {q(self.other)}.{q(self.fresh())}"

    def ddl_drop_table(self) -> str | None:
        tables = self.tables()
        if len(tables) < 3:
            return None
        return f"DROP TABLE IF EXISTS {self.path(self.rng.choice(tables))}"

    def ddl_drop_tables(self) -> str | None:
        tables = self.tables()
        if len(tables) < 4:
            return None
        one, two = self.rng.sample(tables, 2)
        return f"DROP TABLE {self.path(one)}, {self.path(two)} CASCADE"

    def ddl_drop_and_create(self) -> list[str]:
        table = self.table()
        name = f"{q(table[0])}.{q(table[1])}"
        return [f"DROP TABLE {name}", self.create_text(name)]

    def ddl_truncate(self) -> str:
        return f"{self.rng.choice(('TRUNCATE', 'TRUNCATE TABLE'))} {self.path(self.table())}"

    def ddl_partition(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table))
        return self.alter(f"PARTITION BY KEY ({q(column.name)}) PARTITIONS 3", table)

    def ddl_partition_ranges(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table))
        return self.alter(
            f"PARTITION BY RANGE ({q(column.name)}) (PARTITION p0 VALUES LESS THAN (10),"
            " PARTITION p1 VALUES LESS THAN MAXVALUE)",
            table,
        )

    def ddl_partitions_change(self) -> str:
        clause = self.rng.choice(
            (
                *("REMOVE PARTITIONING", "COALESCE PARTITION 1", "ADD PARTITION PARTITIONS 1"),
                *("TRUNCATE PARTITION p0", "REBUILD PARTITION ALL"),
                "REORGANIZE PARTITION p0 INTO (PARTITION n0 VALUES LESS THAN (5), "
                "PARTITION p0 VALUES LESS THAN (10))",
            )
        )
        return self.alter(clause, self.table())

    def ddl_exchange_partition(self) -> list[str]:
        database, table = self.table()
        name = f"{q(database)}.{q(table)}"
        other = f"{q(database)}.{q(self.fresh('x'))}"
        column = q(self.rng.choice(self.columns((database, table))).name)
        ranges = "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)"
        return [
            f"CREATE TABLE {other} LIKE {name}",
            f"ALTER TABLE {name} PARTITION BY RANGE ({column}) {ranges}",
            f"ALTER TABLE {name} EXCHANGE PARTITION p0 WITH TABLE {other}",
        ]

    def ddl_maria_convert_partition(self) -> list[str] | None:
        if self.version < (10, 7):
            return None
        database, table = self.table()
        name = f"{q(database)}.{q(table)}"
        other = f"{q(database)}.{q(self.fresh('y'))}"
        column = q(self.rng.choice(self.columns((database, table))).name)
        ranges = "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)"
        return [
            f"ALTER TABLE {name} PARTITION BY RANGE ({column}) {ranges}",
            f"ALTER TABLE {name} CONVERT PARTITION p0 TO TABLE {other}",
            f"ALTER TABLE {name} CONVERT TABLE {other} TO PARTITION p0 VALUES LESS THAN (10)",
        ]

    def ddl_engine(self) -> str:
        return self.alter(
            self.rng.choice(
                ("ENGINE=InnoDB", "ENGINE = MyISAM", "FORCE", "ROW_FORMAT=COMPACT, COMMENT='x, y'")
            ),
            self.table(),
        )

    def ddl_order_by(self) -> str:
        table = self.table()
        names = [q(c.name) for c in self.columns(table)][:2]
        return self.alter("ORDER BY " + ", ".join(names), table)

    def ddl_options(self) -> str:
        return self.alter(
            self.rng.choice(
                (
                    *("AUTO_INCREMENT = 1000", "STATS_PERSISTENT=1", "DISABLE KEYS", "ENABLE KEYS"),
                    *("MAX_ROWS=100 AVG_ROW_LENGTH=10", "COMMENT 'add column a int, drop b'"),
                )
            ),
            self.table(),
        )

    def ddl_algorithm(self) -> str:
        table = self.table()
        column = self.definition(self.new_name([c.name for c in self.columns(table)]))
        return self.alter(f"ADD COLUMN {column}, ALGORITHM=COPY, LOCK=SHARED", table)

    def ddl_enum_labels(self) -> str | None:
        table = self.table()
        columns = [c for c in self.columns(table) if c.base in ("enum", "set")]
        if not columns:
            return None
        column = self.rng.choice(columns)
        longer = column.type[:-1] + f",'new{self.counter}','neu ä')"
        return self.alter(f"MODIFY {q(column.name)} {longer}", table)

    def ddl_sign(self) -> str | None:
        table = self.table()
        columns = [c for c in self.columns(table) if c.base in ("int", "bigint", "smallint")]
        if not columns:
            return None
        column = self.rng.choice(columns)
        word = "" if "unsigned" in column.type else " UNSIGNED"
        return self.alter(f"MODIFY {q(column.name)} BIGINT{word}", table)

    def ddl_alter_database(self) -> str:
        name = self.rng.choice((q(self.database), q(self.other), ""))
        return f"ALTER DATABASE {name} CHARACTER SET {self.charset()}"

    def ddl_drop_database(self) -> list[str]:
        charset = self.charset()
        return [
            f"DROP DATABASE {q(self.other)}",
            f"CREATE DATABASE {q(self.other)} CHARSET {charset}",
        ]

    def ddl_gh_ost(self) -> list[str]:
        database, table = self.table()
        columns = self.columns((database, table))
        column = self.definition(self.new_name([c.name for c in columns]))
        ghost, old = (
            f"{q(database)}.{q('_' + table + '_gho')}",
            f"{q(database)}.{q('_' + table + '_del')}",
        )
        name = f"{q(database)}.{q(table)}"
        return [
            f"create /* gh-ost */ table {ghost} like {name}",
            f"alter /* gh-ost */ table {ghost} ADD COLUMN {column}",
            f"rename /* gh-ost */ table {name} to {old}, {ghost} to {name}",
            f"drop /* gh-ost */ table if exists {old}",
        ]

    def ddl_pt_osc(self) -> list[str]:
        database, table = self.table()
        columns = self.columns((database, table))
        column = self.rng.choice(columns)
        new, old = f"`{database}`.`_{table}_new`", f"`{database}`.`_{table}_old`"
        name = f"`{database}`.`{table}`"
        return [
            f"CREATE TABLE {new} LIKE {name}",
            f"ALTER TABLE {new} MODIFY {q(column.name)} {column.type} NULL FIRST",
            f"CREATE TRIGGER `{database}`.`pt_{table}_del` AFTER DELETE ON {name} FOR EACH ROW"
            f" DELETE IGNORE FROM {new}",
            f"RENAME TABLE {name} TO {old}, {new} TO {name}",
            f"DROP TRIGGER IF EXISTS `{database}`.`pt_{table}_del`",
            f"DROP TABLE IF EXISTS {old}",
        ]

    def ddl_view(self) -> list[str]:
        view = q(self.fresh("v"))
        return [
            f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {self.path(self.table())}",
            f"ALTER VIEW {view} AS SELECT 1 AS one",
            f"DROP VIEW {view}",
        ]

    def ddl_routine(self) -> list[str]:
        name = q(self.fresh("p"))
        return [
            f"CREATE PROCEDURE {name}() BEGIN CREATE TABLE nothing (a INT); DROP TABLE nothing; END",
            f"DROP PROCEDURE {name}",
        ]

    def ddl_event(self) -> list[str]:
        name = q(self.fresh("e"))
        return [
            f"CREATE EVENT {name} ON SCHEDULE EVERY 1 YEAR DO ALTER TABLE nothing ADD a INT",
            f"DROP EVENT {name}",
        ]

    def ddl_maintenance(self) -> str:
        word = self.rng.choice(("ANALYZE", "OPTIMIZE", "CHECK", "REPAIR"))
        return f"{word} TABLE {self.path(self.table())}"

    def ddl_foreign_key(self) -> list[str]:
        parent, child = q(self.fresh("p")), q(self.fresh("f"))
        return [
            f"CREATE TABLE {parent} (id INT PRIMARY KEY) ENGINE=InnoDB",
            f"CREATE TABLE {child} (p INT REFERENCES {parent} (id) ON DELETE SET NULL, v INT UNSIGNED,"
            f" CONSTRAINT {child} FOREIGN KEY (p) REFERENCES {parent} (id) ON UPDATE CASCADE)"
            " ENGINE=InnoDB",
            f"ALTER TABLE {child} DROP FOREIGN KEY {child}",
            f"DROP TABLE {parent}",
        ]

    def ddl_executable_comment(self) -> str:
        table = self.table()
        column = self.definition(self.new_name([c.name for c in self.columns(table)]))
        other = q(self.fresh("n"))
        return (
            f"/*!50001 ALTER */ TABLE {self.path(table)} ADD {column}"
            f" /*!999999 , ADD COLUMN {other} INT */ /* , DROP COLUMN x */"
        )

    def ddl_eight_generated_key(self) -> list[str]:
        name = q(self.fresh("g"))
        return [
            "SET sql_generate_invisible_primary_key = ON",
            f"CREATE TABLE {name} (a INT UNSIGNED, b VARCHAR(9))",
            "SET sql_generate_invisible_primary_key = OFF",
        ]

    def ddl_eight_functional_index(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table))
        return self.alter(f"ADD INDEX ((LENGTH({q(column.name)})))", table)

    def ddl_maria_if_exists(self) -> str:
        table = self.table()
        column = self.rng.choice(self.columns(table))
        return self.alter(
            self.rng.choice(
                (
                    f"ADD COLUMN IF NOT EXISTS {self.definition(column.name)}",
                    "DROP COLUMN IF EXISTS `not there`",
                    f"DROP COLUMN IF EXISTS {q(column.name)}, DROP INDEX IF EXISTS nothing",
                    f"MODIFY COLUMN IF EXISTS {self.definition(column.name)}",
                    f"CHANGE COLUMN IF EXISTS `nothing` `x` INT, ADD INDEX IF NOT EXISTS ({q(column.name)})",
                )
            ),
            table,
        )

    def ddl_maria_versioning(self) -> str:
        return self.alter(
            self.rng.choice(("ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING")), self.table()
        )

    def ddl_maria_own_period(self) -> str:
        return (
            f"CREATE TABLE {q(self.fresh('w'))} (a INT, b VARCHAR(5),"
            " s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END,"
            " c INT UNSIGNED WITHOUT SYSTEM VERSIONING, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING"
        )

    def ddl_maria_sequence(self) -> list[str]:
        name = q(self.fresh("s"))
        return [
            f"CREATE SEQUENCE {name} START WITH 5",
            f"ALTER SEQUENCE {name} RESTART 50",
            f"DROP SEQUENCE {name}",
        ]

    def ddl_maria_rename_if_exists(self) -> str | None:
        return (
            f"RENAME TABLE IF EXISTS {self.path(self.table())} TO {q(self.fresh())}, `no` TO `nein`"
        )

    def ddl_client_charset(self) -> list[str] | None:
        name = q(self.fresh("l"))
        return [
            "SET NAMES latin1",
            f"CREATE TABLE {name} (a INT, b ENUM('x','y'), c VARCHAR(4))",
            "SET NAMES utf8mb4",
        ]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
