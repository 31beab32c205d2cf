"""A mixed load for the source of a relay: every column type, every way in which rows change, and DDL."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pymysql

from tests.integration.ddl_generator import Ddl
from tests.integration.values_comparison import Cell
from tests.integration.values_generator import makers
from tests.integration.values_kinds import Draws
from tests.integration.values_settings import Settings
from tests.integration.values_statements import Statements
from tests.integration.values_tables import Features, Table, random_table
from tests.servers.local import LocalServer

TYPES, DDL = "types", "ddl"
DATABASES = (TYPES, DDL, DDL + "b")
TOLD = ("tables of all types", "changes", "DDL steps", "rotations", "refused")
"""What is counted besides the columns of each type."""

_MOST_TABLES = 40
_COLUMNS = 60

# What the servers' own replicas cannot follow, whoever sends it to them.
_WITHOUT = ("ddl_temporary", "ddl_maria_rename_if_exists", "ddl_event")


class _Ddl(Ddl):
    def kinds(self) -> list[str]:
        return [name for name in super().kinds() if name not in _WITHOUT]


class MixedLoad:
    """Writes to a server, a step at a time; statements that it refuses do not count.

    Args:
        server: the source, of the load's own.
        seed: the same seed gives the same load.
    """

    def __init__(self, server: LocalServer, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._server = server
        self._rng = random.Random(seed)
        server.execute(f"CREATE DATABASE {TYPES} CHARACTER SET utf8mb4")
        self._connection = server.connect(conv={}, use_unicode=True)
        self._connection.select_db(TYPES)
        self._run("SET sql_mode = '', time_zone = '+00:00', innodb_strict_mode = ON")
        charsets = sorted(str(row[0]) for row in server.query("SHOW CHARACTER SET"))
        self._draws = Draws(seed, charsets)
        self._makers = makers(server.flavor, server.version)
        self._features = Features.of(server.flavor, server.version)
        if server.flavor == "mariadb":
            # CHECKSUM TABLE of virtual DECIMAL columns with NULLs differs between a MariaDB and its own replicas.
            self._features = replace(self._features, generated=False)
        self._settings = Settings(server, self._draws, self._run, True)
        self._tables: list[Table] = []
        self._number = 0
        self._ddl_connection = server.connect(charset="utf8mb4")
        self._ddl = _Ddl(server, self._ddl_connection, DDL, self._rng)
        self._ddl.start()

    def close(self) -> None:
        """Close its connections."""
        self._connection.close()
        self._ddl_connection.close()

    def step(self) -> None:
        """A statement, or a transaction."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.4:
            self._ddl.step()
            self.counts["DDL steps"] += 1
        elif kind < 0.5 or not self._tables:
            self._new_table()
        elif kind < 0.52:
            self._server.execute("FLUSH BINARY LOGS")
            self.counts["rotations"] += 1
        else:
            self._change()

    def _run(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)

    def _try(self, sql: str) -> bool:
        try:
            self._run(sql)
        except (pymysql.MySQLError, UnicodeError):
            self.counts["refused"] += 1
            return False
        return True

    def _new_table(self) -> None:
        if self._number % 3 == 0:
            self._settings.choose()
            if self._server.flavor == "mariadb":
                # A replica makes temporal columns as its own settings say; and REPLACE under MINIMAL is logged
                # without the columns that got their defaults.
                self._server.execute("SET GLOBAL mysql56_temporal_format = ON")
                self._run("SET SESSION binlog_row_image = FULL")
        self._number += 1
        table = random_table(
            self._draws,
            self._makers,
            self._features,
            f"t{self._number}",
            lambda name: float(self.counts[name]),
            _COLUMNS,
        )
        if table.hidden_key or not self._try(table.create()):
            return
        for column in table.columns:
            self.counts[column.kind.type or "ids"] += 1
        self.counts["tables of all types"] += 1
        self._tables.append(table)
        self._try(self._statements([table]).insert(table, 5))
        if len(self._tables) > _MOST_TABLES:
            old = self._tables.pop(self._rng.randrange(len(self._tables)))
            self._try(f"DROP TABLE {old.sql_name}")

    def _statements(self, tables: list[Table]) -> Statements:
        for table in tables:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT id FROM {table.sql_name}")
                found = [int(row[0]) for row in cursor.fetchall()]
            at, width = table.id_at, len(table.columns)
            table.cells = {
                number: [Cell(str(number)) if one == at else None for one in range(width)]
                for number in found
            }
        return Statements(self._draws, tables, partial_json=self._settings.partial_json)

    def _change(self) -> None:
        tables = self._rng.sample(self._tables, min(2, len(self._tables)))
        group = self._statements(tables).group()
        for sql in group.statements:
            self._try(sql)
        self._try("COMMIT")
        self.counts["changes"] += 1
