"""Random services that share sources and destinations, random operations on all of them, and SELECT on both sides.

Two services, each of one source, have one to three sinks each. Mirrors in MySQL and PostgreSQL are in one database for
all sinks of that kind; those in SQLite and DuckDB have a file each. Tables of the sinks of one destination do not meet.
After some operations everything is waited for, and each mirror is compared with its source.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.daemon_process import DaemonProcess
from tests.integration.postgres_server import PostgresServer
from tests.integration.sink_comparison import compare_sink
from tests.servers.local import LocalServer

TABLES = 6
KINDS = ("mysql", "postgres", "sqlite", "duckdb")
_LEVEL_SECONDS = 120.0


@dataclass
class Party:
    """A source, and the service that follows it.

    Attributes:
        source: the server.
        database: of its tables.
        daemon: the service.
        tables: names that there are.
        added: columns that were added to a table.
        free: tables that no sink has, by destination.
    """

    source: LocalServer
    database: str
    daemon: DaemonProcess
    tables: list[str]
    added: dict[str, list[str]] = field(default_factory=dict)
    key: int = 1000

    def run(self, statement: str) -> None:
        self.source.execute(statement)

    def sink_of(self, name: str) -> dict[str, Any]:
        return next(one for one in self.daemon.sinks if one["name"] == name)


class Composition:
    """The services and what is done to them.

    Args:
        sources: two servers.
        target: a server for the mirrors of kind ``mysql``.
        postgres: for those of kind ``postgres``.
        directory: for everything else.
        seed: of all that is random.
        say: is told each operation.
    """

    def __init__(
        self,
        sources: tuple[LocalServer, LocalServer],
        target: LocalServer,
        postgres: PostgresServer,
        directory: Path,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self.random = random.Random(seed)
        self.target, self.postgres, self.directory, self.say = target, postgres, directory, say
        self.done: Counter[str] = Counter()
        self.compared = 0
        self.names = 0
        self.parties = [self._party(at, source) for at, source in enumerate(sources)]

    def _party(self, at: int, source: LocalServer) -> Party:
        database = f"shop{at}"
        source.execute(f"CREATE DATABASE {database}")
        tables = [f"t{number}" for number in range(TABLES)]
        for name in tables:
            key = "" if name == "t5" else "PRIMARY KEY"
            source.execute(
                f"CREATE TABLE {database}.{name} (id INT {key}, n INT, f FLOAT, s VARCHAR(30))"
            )
            for row in range(20):
                source.execute(f"INSERT INTO {database}.{name} VALUES ({row}, 0, 0.1, 'a{row}')")
        home = self.directory / database
        home.mkdir()
        settings = {"url": source.url(), "tables": [f"{database}.*"], "heartbeat": 1.0}
        daemon = DaemonProcess(home, settings, [], {"name": f"service-{at}"})
        party = Party(source, database, daemon, tables)
        for _ in range(self.random.randint(1, 3)):
            daemon.sinks.append(self._new_sink(party))
        return party

    def _new_sink(self, party: Party) -> dict[str, Any]:
        kind = self.random.choice(KINDS)
        self.names += 1
        name = f"sink{self.names}"
        taken = {
            table
            for sink in party.daemon.sinks
            if sink["type"] == kind and kind in ("mysql", "postgres")
            for table in sink["tables"]
        }
        free = [f"{party.database}.{one}" for one in party.tables]
        left = [one for one in free if one not in taken]
        if not left:
            kind, left = "sqlite", free
        tables = self.random.sample(left, self.random.randint(1, min(3, len(left))))
        options: dict[str, Any] = {
            "mysql": {"url": self.target.url("root"), "database_prefix": "m_"},
            "postgres": {"url": self.postgres.url, "schema_prefix": "m_"},
            "sqlite": {"path": self.directory / f"{name}.db"},
            "duckdb": {"path": self.directory / f"{name}.duckdb"},
        }[kind]
        common = {"name": name, "snapshot": True, "retry_seconds": 1.0, "tables": tables}
        return {"type": kind, **common, **options}

    # Operations.

    def write(self, party: Party) -> None:
        """Rows come, change and go."""
        pick = self.random
        for _ in range(pick.randint(1, 6)):
            table = f"{party.database}.{pick.choice(party.tables)}"
            party.key += 1
            party.run(
                pick.choice(
                    (
                        f"INSERT INTO {table} (id, n, f, s) VALUES ({party.key}, 1, {party.key}.3, 'x%{party.key}')",
                        f"UPDATE {table} SET n = COALESCE(n, 0) + 1, f = f * 3 WHERE id % 3 = {pick.randint(0, 2)}",
                        f"UPDATE {table} SET id = id + 100000 WHERE id = {pick.randint(0, 30)}",
                        f"DELETE FROM {table} WHERE id % 17 = {pick.randint(0, 16)}",
                    )
                )
            )

    def alter(self, party: Party) -> None:
        """A table is altered."""
        pick, name = self.random, self.random.choice(party.tables)
        table, added = f"{party.database}.{name}", party.added.setdefault(name, [])
        what = pick.choice(("add", "default", "drop", "widen", "text", "truncate", "swap"))
        if what == "drop" and added:
            party.run(f"ALTER TABLE {table} DROP COLUMN {added.pop()}")
        elif what == "widen":
            party.run(f"ALTER TABLE {table} MODIFY n BIGINT")
        elif what == "text":
            party.run(f"ALTER TABLE {table} MODIFY s VARCHAR({pick.randint(40, 90)})")
        elif what == "truncate":
            party.run(f"TRUNCATE TABLE {table}")
        elif what == "swap" and name != "t5":
            other = pick.choice([one for one in party.tables if one != name])
            database = party.database
            party.run(
                f"RENAME TABLE {table} TO {database}.moved, {database}.{other} TO {table}, "
                f"{database}.moved TO {database}.{other}"
            )
            party.added[name], party.added[other] = party.added.get(other, []), added
        else:
            party.key += 1
            column = f"c{party.key}"
            default = pick.choice(("INT NULL", "VARCHAR(9) NOT NULL DEFAULT '50%'", "DATE NULL"))
            place = pick.choice(("", " FIRST", " AFTER id"))
            party.run(f"ALTER TABLE {table} ADD COLUMN {column} {default}{place}")
            added.append(column)

    def kill(self, party: Party) -> None:
        """The service is killed, and started again."""
        party.daemon.kill()
        party.daemon.start()

    def restart(self, party: Party) -> None:
        """The service is stopped, and started again."""
        status = party.daemon.stop()
        assert status == 0, f"status {status}: {party.daemon.tail()}"
        party.daemon.start()

    def freeze(self, party: Party) -> None:
        """The service stands still for a moment."""
        process = party.daemon.process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        self.write(party)
        time.sleep(self.random.uniform(0.1, 1.0))
        process.send_signal(signal.SIGCONT)

    def restart_target(self, party: Party) -> None:
        """The server of mirrors restarts."""
        del party
        self.target.restart()

    def show(self, party: Party) -> None:
        """Somebody looks at the positions."""
        self._command(party, "position", "show", str(party.daemon.config))

    def snapshot(self, party: Party) -> None:
        """A table is copied again."""
        if not party.daemon.sinks:
            return
        sink = self.random.choice(party.daemon.sinks)
        table = self.random.choice(sink["tables"])
        self._copy_again(party, sink, table)

    def _copy_again(self, party: Party, sink: dict[str, Any], table: str) -> None:
        name = f"source.{sink['name']}"
        config = str(party.daemon.config)
        self._command(party, "snapshot", config, "--sink", name, "--table", table)

    def _command(self, party: Party, *arguments: str) -> None:
        found = subprocess.run(
            [sys.executable, "-m", "replica_client", *arguments],
            capture_output=True,
            timeout=60,
            check=False,
        )
        text = (found.stdout + found.stderr).decode(errors="replace")
        assert found.returncode == 0, f"{arguments}: {text[-800:]}"

    def change_sinks(self, party: Party) -> None:
        """A sink comes or goes, or its tables do, and the service reads its configuration again."""
        sinks, pick = party.daemon.sinks, self.random
        what = pick.choice(("add", "remove", "tables"))
        if what == "add" and len(sinks) < 3:
            sinks.append(self._new_sink(party))
        elif what == "remove" and len(sinks) > 1:
            sinks.remove(pick.choice(sinks))
        else:
            sink = pick.choice(sinks)
            names = {f"{party.database}.{one}" for one in party.tables}
            if sink["type"] in ("mysql", "postgres"):
                names -= {
                    table
                    for one in sinks
                    if one is not sink and one["type"] == sink["type"]
                    for table in one["tables"]
                }
            sink["tables"] = pick.sample(sorted(names), pick.randint(1, min(4, len(names))))
        party.daemon.write_config()
        process = party.daemon.process
        assert process is not None
        process.send_signal(signal.SIGHUP)

    def use(self, party: Party) -> None:
        """Users make indexes and views on a mirror."""
        sink = self.random.choice(party.daemon.sinks)
        table = self.random.choice(sink["tables"])
        database, _, name = table.partition(".")
        self.level(party)
        self.names += 1
        made = f"u{self.names}"
        if sink["type"] == "postgres":
            self._postgres(f"CREATE INDEX {made} ON m_{database}.{name} (n)")
            self._postgres(f"CREATE VIEW m_{database}.v{made} AS SELECT id, n FROM m_{table}")
        elif sink["type"] == "mysql":
            self.target.execute(f"CREATE INDEX {made} ON m_{table} (n)")
            self.target.execute(f"CREATE VIEW m_{database}.v{made} AS SELECT id, n FROM m_{table}")
        elif sink["type"] == "sqlite":
            with contextlib.closing(sqlite3.connect(sink["path"], timeout=30)) as connection:
                connection.execute(f'CREATE INDEX "{made}" ON "{table}" (n)')

    def take_out(self, party: Party) -> None:
        """A row is deleted from a mirror by hand; its table is set aside, and copied again."""
        sinks = [one for one in party.daemon.sinks if one["type"] != "duckdb"]
        if not sinks:
            return
        sink = self.random.choice(sinks)
        table = self.random.choice(sink["tables"])
        party.key += 1
        party.run(f"INSERT INTO {table} (id, n) VALUES ({party.key}, 1)")
        self.level(party)
        delete = f"DELETE FROM m_{table} WHERE id = {party.key}"
        if sink["type"] == "postgres":
            self._postgres(delete)
        elif sink["type"] == "mysql":
            self.target.execute(delete)
        else:
            with contextlib.closing(sqlite3.connect(sink["path"], timeout=30)) as connection:
                connection.execute(f'DELETE FROM "{table}" WHERE id = {party.key}')
                connection.commit()
        party.run(f"UPDATE {table} SET n = 7 WHERE id = {party.key}")

        def aside() -> list[str]:
            return [one["table"] for one in party.daemon.route(sink["name"])["set_aside"]]

        party.daemon.until(lambda _: aside() == [table], _LEVEL_SECONDS)
        status, _ = party.daemon.get("/readyz")
        assert status != 200, f"ready although {table} is set aside"
        self._copy_again(party, sink, table)
        party.daemon.until(lambda _: not aside(), _LEVEL_SECONDS)

    def _postgres(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.postgres.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    # The proof.

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the services."""
        with contextlib.ExitStack() as stack:
            for party in self.parties:
                stack.enter_context(party.daemon)
            yield

    def step(self) -> None:
        """Do one operation."""
        often = [self.write] * 6 + [self.alter] * 3 + [self.change_sinks] * 2
        rare = [self.kill, self.restart, self.freeze, self.show, self.snapshot, self.use]
        operation = self.random.choice(often + rare + [self.take_out, self.restart_target])
        party = self.random.choice(self.parties)
        self.say(f"{party.database}: {operation.__name__}")
        operation(party)
        self.done[operation.__name__] += 1

    def level(self, party: Party) -> None:
        """Wait until a service has committed everything."""
        wanted = {one["name"] for one in party.daemon.sinks}

        def has_sinks(daemon: DaemonProcess) -> bool:
            return {route["sink"] for route in daemon.status()["routes"]} == wanted

        party.daemon.until(has_sinks, _LEVEL_SECONDS)
        party.daemon.until_level(_LEVEL_SECONDS)

    def compare(self) -> None:
        """Wait for everything, and compare every mirror with its source."""
        for party in self.parties:
            self.level(party)
            for sink in party.daemon.sinks:
                route = party.daemon.route(sink["name"])
                assert not route["set_aside"], route["set_aside"]
                options = {key: str(value) for key, value in sink.items()}
                kind, tables = sink["type"], sink["tables"]
                if kind == "postgres":
                    options["schema_prefix"] = "m_"
                compared = compare_sink(kind, options, party.source, tables=tables)
                assert compared.tables == len(tables), (compared.tables, tables)
                self.compared += compared.tables
