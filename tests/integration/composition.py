"""Random services that share sources and destinations, random operations on all of them, and SELECT on both sides.

Two services, each of one source, have one to three sinks each, into destinations of every kind, shared and separate.
Tables of the sinks of one shared destination do not meet. After some operations everything is waited for. Then each
mirror and lake is compared with its source, and so is what a consumer has that keeps the last state of each key.
"""

# Over 500 lines: the operations and what they expect share the state of the world.

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import processes
from tests.integration.composition_destinations import (
    EVENTS,
    LAKES,
    MIRRORS,
    SHARED,
    Consumer,
    Destinations,
    Position,
)
from tests.integration.composition_lakes import LakeProcess
from tests.integration.daemon_process import DaemonProcess
from tests.integration.mirror_source import shortest_float, source_rows
from tests.integration.sink_comparison import MIRRORS as READERS
from tests.servers.local import LocalServer

TABLES = 6
KEYLESS = "t5"
MASKED = "t0"
MASK = "***"
BASE = ("id", "n", "f", "s")
KINDS = MIRRORS + EVENTS + LAKES
_LEVEL_SECONDS = 180.0
_WAIT_SECONDS = 90.0


@dataclass
class Party:
    """A source, and the service that follows it.

    Attributes:
        source: the server.
        database: of its tables.
        daemon: the service.
        tables: names that there are.
        added: columns that were added to a table.
        marks: where the last copy of a table for a sink of events begins at the earliest.
        masked: whether a column of :data:`MASKED` is masked.
        names: of the views on mirrors of PostgreSQL and MySQL, by table.
        services: how many there were.
        statements: that were run.
        lakes: of the source.
    """

    source: LocalServer
    database: str
    daemon: DaemonProcess
    tables: list[str]
    added: dict[str, list[str]] = field(default_factory=dict)
    marks: dict[tuple[str, str], Position] = field(default_factory=dict)
    views: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    masked: bool = False
    key: int = 1000
    services: int = 1
    statements: list[str] = field(default_factory=list)
    lakes: list[LakeProcess] = field(default_factory=list)

    def run(self, statement: str) -> None:
        self.source.execute(statement)
        self.statements.append(statement)

    def sink_of(self, name: str) -> dict[str, Any]:
        return next(one for one in self.daemon.sinks if one["name"] == name)

    def mark(self, sink: dict[str, Any], table: str) -> None:
        """A table is copied for a sink of events from now on."""
        self.marks[sink["name"], table] = self.source.binlog_position()


class Composition:
    """The services and what is done to them.

    Args:
        sources: two servers.
        destinations: all of them.
        directory: for everything else.
        seed: of all that is random.
        say: is told each operation.
        kinds: of sinks.
    """

    def __init__(
        self,
        sources: tuple[LocalServer, LocalServer],
        destinations: Destinations,
        directory: Path,
        seed: int,
        say: Callable[[str], None],
        kinds: tuple[str, ...] = KINDS,
    ) -> None:
        self.random = random.Random(seed)
        self.kinds = tuple(one for one in kinds if one not in LAKES)
        self.lake_kinds = tuple(one for one in kinds if one in LAKES)
        self.there, self.directory, self.say = destinations, directory, say
        self.target = destinations.target
        self.done: Counter[str] = Counter()
        self.used: Counter[str] = Counter()
        self.compared = self.events = 0
        self.names = 0
        self.target.execute("CREATE DATABASE IF NOT EXISTS positions")
        self.parties = [self._party(at, source) for at, source in enumerate(sources)]

    def _party(self, at: int, source: LocalServer) -> Party:
        database = f"shop{at}"
        source.execute(f"CREATE DATABASE {database}")
        tables = [f"t{number}" for number in range(TABLES)]
        for name in tables:
            self._make(source, database, name)
        home = self.directory / database
        home.mkdir()
        settings = {"url": source.url(), "tables": [f"{database}.*"], "heartbeat": 1.0}
        store = {"type": "mysql", "url": f"{self.target.url('root').rstrip('/')}/positions"}
        daemon = DaemonProcess(home, settings, [], {"name": f"service-{at}"}, store)
        party = Party(source, database, daemon, tables)
        for _ in range(self.random.randint(1, 3)):
            daemon.sinks.append(self._new_sink(party))
        if self.lake_kinds:
            self._add_lake(party)
        return party

    def _add_lake(self, party: Party) -> LakeProcess:
        kind = self.random.choice(self.lake_kinds)
        self.names += 1
        name = f"lake{self.names}"
        self.used[kind] += 1
        output, environment = self.there.lake(kind, name)
        home = self.directory / name
        home.mkdir()
        names = [f"{party.database}.{one}" for one in party.tables]
        tables = self.random.sample(names, self.random.randint(1, 4))
        made = LakeProcess(home, party.source.url(), output, tables, environment, f"{kind} {name}")
        party.lakes.append(made)
        return made

    def _make(self, source: LocalServer, database: str, name: str) -> None:
        key = "" if name == KEYLESS else "PRIMARY KEY"
        source.execute(
            f"CREATE TABLE {database}.{name} (id INT {key}, n INT, f FLOAT, s VARCHAR(30))"
        )
        rows = ", ".join(f"({row}, 0, 0.1, 'a{row}')" for row in range(20))
        source.execute(f"INSERT INTO {database}.{name} VALUES {rows}")

    def _free(self, party: Party, kind: str, but: dict[str, Any] | None = None) -> list[str]:
        """Return the tables that a sink of this kind may have."""
        names = {f"{party.database}.{one}" for one in party.tables}
        if kind in SHARED:
            names -= {
                table
                for sink in party.daemon.sinks
                if sink is not but and sink["type"] == kind
                for table in sink["tables"]
            }
        return sorted(names)

    def _new_sink(self, party: Party) -> dict[str, Any]:
        kind = self.random.choice(self.kinds)
        self.names += 1
        name = f"sink{self.names}"
        left = self._free(party, kind)
        if not left:
            kind, left = "sqlite", self._free(party, "sqlite")
        tables = self.random.sample(left, self.random.randint(1, min(3, len(left))))
        self.used[kind] += 1
        common = {"name": name, "snapshot": True, "retry_seconds": 1.0, "tables": tables}
        if kind in EVENTS:
            common["snapshot_rows"] = 15
        return {"type": kind, **common, **self.there.options(kind, name)}

    # Operations on the source.

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
        what = pick.choice(
            (*("add",) * 3, "drop", "widen", "text", "truncate", "swap", "swap", "index", "rename", "charset",
             "comment", "default", "recreate")
        )  # fmt: skip
        party.key += 1
        if what == "drop" and added:
            party.run(f"ALTER TABLE {table} DROP COLUMN {added.pop()}")
        elif what == "rename" and added:
            old, new = added.pop(), f"c{party.key}"
            party.run(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
            added.append(new)
        elif what == "widen":
            party.run(f"ALTER TABLE {table} MODIFY n BIGINT")
        elif what == "text":
            party.run(f"ALTER TABLE {table} MODIFY s VARCHAR({pick.randint(40, 90)})")
        elif what == "charset":
            party.run(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4")
        elif what == "index":
            party.run(f"ALTER TABLE {table} ADD INDEX i{party.key} (n)")
        elif what == "comment":
            party.run(f"ALTER TABLE {table} COMMENT = 'of {party.key}'")
        elif what == "default":
            party.run(f"ALTER TABLE {table} ALTER COLUMN n SET DEFAULT {party.key}")
        elif what == "truncate":
            party.run(f"TRUNCATE TABLE {table}")
        elif what == "recreate" and not self._has_views(party, table):
            party.run(f"DROP TABLE {table}")
            self._make(party.source, party.database, name)
            added.clear()
        elif what == "swap" and name != KEYLESS and not party.masked:
            self._swap(party, name)
        else:
            column = f"c{party.key}"
            default = pick.choice(("INT NULL", "VARCHAR(9) NOT NULL DEFAULT '50%'", "DATE NULL"))
            place = pick.choice(("", " FIRST", " AFTER id"))
            party.run(f"ALTER TABLE {table} ADD COLUMN {column} {default}{place}")
            added.append(column)

    def _swap(self, party: Party, name: str) -> None:
        """Two tables exchange their names; a sink of events that has one of them gets the other's rows."""
        other = self.random.choice([one for one in party.tables if one not in (name, KEYLESS)])
        database = party.database
        pair = {f"{database}.{name}", f"{database}.{other}"}
        for sink in party.daemon.sinks:
            if sink["type"] in EVENTS and len(pair & set(sink["tables"])) == 1:
                party.mark(sink, next(iter(pair & set(sink["tables"]))))
        party.run(
            f"RENAME TABLE {database}.{name} TO {database}.moved, {database}.{other} TO {database}.{name}, "
            f"{database}.moved TO {database}.{other}"
        )
        added = party.added
        added[name], added[other] = added.get(other, []), added.get(name, [])
        for sink in party.daemon.sinks:
            marks = [(sink["name"], one) for one in sorted(pair)]
            if pair <= set(sink["tables"]):
                one, two = (party.marks.pop(mark, None) for mark in marks)
                party.marks |= {
                    mark: at for mark, at in zip(marks, (two, one), strict=True) if at is not None
                }

    def _has_views(self, party: Party, table: str) -> bool:
        return any(of == table for _, of in party.views)

    # Operations on the services.

    def kill(self, party: Party) -> None:
        """The service is killed, and started again."""
        party.daemon.kill()
        party.daemon.start()

    def restart(self, party: Party) -> None:
        """The service is stopped, and started again."""
        self._answers(party)  # before that, SIGTERM ends it without a word
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

    def take_over(self, party: Party) -> None:
        """A standby waits; the active service dies or stands still, and the standby goes on."""
        active = party.daemon
        if any(one["type"] == "clickhouse" for one in active.sinks):
            return  # ClickHouse has no lease
        home = active.directory.with_name(f"{party.database}-{party.services}")
        home.mkdir()
        party.services += 1
        standby = DaemonProcess(home, active.source, active.sinks, active.daemon, active.store)
        self._answers(party)
        standby.start()
        process = active.process
        assert process is not None
        frozen = self.random.random() < 0.4
        try:
            # It may have a sink that the active service does not hold for a moment.
            standby.until(lambda one: _all(one, len(active.sinks)), _WAIT_SECONDS)
            process.send_signal(signal.SIGSTOP if frozen else signal.SIGKILL)
            self.write(party)
            if frozen:
                # Files have a lock that a frozen process keeps: it must end before another goes on.
                locks = {"file", "parquet", "sqlite", "duckdb"}
                wanted = {one["name"] for one in active.sinks if one["type"] not in locks}
                standby.until(
                    lambda one: (
                        wanted
                        <= {route["sink"] for route in one.status()["routes"] if _streams(route)}
                    ),
                    _WAIT_SECONDS,
                )
                process.send_signal(signal.SIGCONT)
                time.sleep(self.random.uniform(0, 1.5))
            active.close()
            party.daemon = standby
            standby.until(
                lambda one: all(_streams(route) for route in one.status()["routes"]), _WAIT_SECONDS
            )
        finally:
            if party.daemon is not standby:
                standby.close()

    def restart_server(self, party: Party) -> None:
        """The server of a source or a destination restarts."""
        kind = self.random.choice(["source", *self.there.running])
        self.say(f"  {kind}")
        if kind == "source":
            party.source.restart()
        else:
            self.there.restart(kind)

    def show(self, party: Party) -> None:
        """Somebody looks at the positions."""
        self._command("position", "show", str(party.daemon.config))

    def snapshot(self, party: Party) -> None:
        """A table is copied again."""
        sink = self.random.choice(party.daemon.sinks)
        table = self.random.choice(sink["tables"])
        self._copy_again(party, sink, table)

    def _copy_again(self, party: Party, sink: dict[str, Any], table: str) -> None:
        name = f"source.{sink['name']}"
        config = str(party.daemon.config)
        self._command("snapshot", config, "--sink", name, "--table", table)

    def _command(
        self, *arguments: str, status: int = 0, environment: Mapping[str, str] | None = None
    ) -> str:
        found = processes.run(
            [sys.executable, "-m", "replica_client", *arguments],
            capture_output=True,
            timeout=120,
            check=False,
            env={**os.environ, **(environment or {})},
        )
        text = str((found.stdout + found.stderr).decode(errors="replace"))
        assert found.returncode == status, f"{arguments}: {text[-800:]}"
        return text

    def change_sinks(self, party: Party) -> None:
        """A sink comes or goes, or its tables do, and the service reads its configuration again."""
        self.level(party)
        sinks, pick = party.daemon.sinks, self.random
        what = pick.choice(("add", "remove", "tables", "tables"))
        if what == "add" and len(sinks) < 3:
            sinks.append(self._new_sink(party))
        elif what == "remove" and len(sinks) > 1:
            gone = pick.choice(sinks)
            sinks.remove(gone)
        else:
            sink = pick.choice(sinks)
            names = self._free(party, sink["type"], sink)
            before = set(sink["tables"])
            sink["tables"] = pick.sample(names, pick.randint(1, min(4, len(names))))
            if sink["type"] in EVENTS:
                for table in set(sink["tables"]) - before:
                    party.mark(sink, table)
        shown = {one["name"]: (one["type"], *one["tables"]) for one in sinks}
        self.say(f"  {what}: {shown}")
        self._hang_up(party)

    def mask(self, party: Party) -> None:
        """A column is masked, or shown again."""
        self.level(party)
        party.masked = not party.masked
        table = f"{party.database}.{MASKED}"
        party.daemon.source.pop("transform", None)
        if party.masked:
            party.daemon.source["transform"] = [
                {"tables": [table], "mask": {"s": MASK}, "keep": ["*"]}
            ]
        for sink in party.daemon.sinks:
            if sink["type"] in EVENTS and table in sink["tables"]:
                party.mark(sink, table)
        self._hang_up(party)

    def refuse(self, party: Party) -> None:
        """A configuration in which two sinks would write one table is refused by name, and the old one goes on."""
        shared = [one for one in party.daemon.sinks if one["type"] in SHARED]
        if not shared:
            return
        sink = self.random.choice(shared)
        other = {**sink, "name": "twin", "tables": sink["tables"][:1]}
        party.daemon.sinks.append(other)
        self._answers(party)
        try:
            self._hang_up(party)
            text = party.daemon.status()["config_error"]
            assert sink["name"] in text, text
        finally:
            party.daemon.sinks.remove(other)
        self._hang_up(party)
        assert not party.daemon.status()["config_error"]

    def _answers(self, party: Party) -> None:
        party.daemon.until(lambda one: bool(one.status()["routes"]), _WAIT_SECONDS)

    def _hang_up(self, party: Party) -> None:
        """SIGHUP; returns when the configuration was read."""
        daemon = party.daemon
        self._answers(party)
        before = _readings(daemon)
        daemon.write_config()
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda one: _readings(one) > before, _WAIT_SECONDS)

    # Operations on lakes.

    def lake(self, party: Party) -> None:
        """A pipeline dies, stands still, gets other tables, copies one again or is taken over; or one more comes."""
        what = self.random.choice(
            ("add", "kill", "freeze", "tables", "copy", "take_over", "second")
        )
        if not party.lakes or (what == "add" and len(party.lakes) < 2):
            if self.lake_kinds:
                self._add_lake(party).start()
            return
        lake = self.random.choice(party.lakes)
        self.say(f"  {lake.name}: {what}")
        if what == "kill":
            lake.send(signal.SIGKILL)
            lake.close()
            lake.start()
        elif what == "freeze":
            lake.send(signal.SIGSTOP)
            self.write(party)
            time.sleep(self.random.uniform(0.1, 1.0))
            lake.send(signal.SIGCONT)
        elif what == "tables":
            lake.until(lambda status: bool(status["streams"]), _WAIT_SECONDS)
            lake.end()
            names = [f"{party.database}.{one}" for one in party.tables]
            lake.tables = self.random.sample(names, self.random.randint(1, 4))
            lake.start()
        elif what == "copy":
            table = self.random.choice(lake.tables)
            words = ("lake", "copy") if self.random.random() < 0.5 else ("snapshot",)
            given = (table,) if words[0] == "lake" else ("--table", table)
            self._command(*words, str(lake.config), *given, environment=lake.environment)
        elif what == "take_over":
            self._take_over_lake(party, lake)
        elif what == "second":
            text = self._command(
                *("pipeline", str(self._once(lake))), environment=lake.environment, status=2
            )
            assert "another pipeline writes there" in text, text

    def _once(self, lake: LakeProcess) -> Path:
        """Return the configuration of a run that does not wait for another one's end."""
        lake.until(lambda status: bool(status["streams"]), _WAIT_SECONDS)
        text = lake.config.read_text().replace('"continuous"', '"available-now"')
        file = lake.directory / "once.toml"
        file.write_text(re.sub(r"listen = .*\n|interval = .*\n", "", text))
        return file

    def _take_over_lake(self, party: Party, lake: LakeProcess) -> None:
        """Another pipeline waits; the first one dies or stands still."""
        self.names += 1
        standby = lake.standby(self.directory / f"standby{self.names}")
        lake.until(lambda status: bool(status["streams"]), _WAIT_SECONDS)
        standby.start()
        try:
            standby.until_log("standby", _WAIT_SECONDS)
            frozen = "://" in lake.output and self.random.random() < 0.5
            lake.send(signal.SIGSTOP if frozen else signal.SIGKILL)
            self.write(party)
            standby.until(lambda status: bool(status["streams"]), _WAIT_SECONDS)
            if frozen:  # it finds that it is not the owner any more, and ends
                lake.send(signal.SIGCONT)
                time.sleep(self.random.uniform(0, 1.5))
            lake.close()
            party.lakes[party.lakes.index(lake)] = standby
        finally:
            if standby not in party.lakes:
                standby.close()

    # Operations on mirrors.

    def use(self, party: Party) -> None:
        """Users make indexes and views on a mirror, and get rights there."""
        sink = self.random.choice(party.daemon.sinks)
        table = self.random.choice(sink["tables"])
        database, _, name = table.partition(".")
        if sink["type"] not in ("postgres", "mysql", "sqlite"):
            return
        self.level(party)
        self.names += 1
        made = f"u{self.names}"
        if sink["type"] == "postgres":
            self._postgres(f"CREATE INDEX {made} ON m_{database}.{name} (n)")
            self._postgres(f"CREATE VIEW m_{database}.v{made} AS SELECT id, n FROM m_{table}")
            self._postgres(f"CREATE ROLE r{made}")
            self._postgres(f"GRANT SELECT ON m_{table} TO r{made}")
            party.views.setdefault(("postgres", table), []).append(f"m_{database}.v{made}")
        elif sink["type"] == "mysql":
            self.target.execute(f"CREATE INDEX {made} ON m_{table} (n)")
            self.target.execute(f"CREATE VIEW m_{database}.v{made} AS SELECT id, n FROM m_{table}")
        else:
            with contextlib.closing(sqlite3.connect(sink["path"], timeout=30)) as connection:
                connection.execute(f'CREATE INDEX "{made}" ON "{table}" (n)')

    def take_out(self, party: Party) -> None:
        """A row is deleted from a mirror by hand; its table is set aside, and copied again."""
        sinks = [
            one for one in party.daemon.sinks if one["type"] in ("postgres", "mysql", "sqlite")
        ]
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

    def _postgres(self, statement: str) -> list[Any]:
        import psycopg

        with psycopg.connect(self.there.postgres.url, autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return list(found.fetchall()) if found.description else []

    # The proof.

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the services."""
        try:
            for party in self.parties:
                party.daemon.start()
                for lake in party.lakes:
                    lake.start()
            yield
        finally:
            for party in self.parties:
                party.daemon.close()
                for lake in party.lakes:
                    lake.close()

    def step(self) -> None:
        """Do one operation."""
        often = [self.write] * 8 + [self.alter] * 6 + [self.change_sinks] * 3
        rare = [self.kill, self.restart, self.freeze, self.show, self.snapshot, self.snapshot]
        rare += [
            self.lake,
            self.lake,
            self.lake,
            self.use,
            self.take_out,
            self.restart_server,
            self.take_over,
            self.mask,
            self.refuse,
        ]
        operation = self.random.choice(often + rare)
        party = self.random.choice(self.parties)
        self.say(f"{party.database}: {operation.__name__}")
        before = len(party.statements)
        operation(party)
        if operation == self.alter:
            self.say(f"  {'; '.join(party.statements[before:])}")
        self.done[operation.__name__] += 1

    def level(self, party: Party) -> None:
        """Wait until a service has committed everything, and copied all tables."""
        wanted = {one["name"] for one in party.daemon.sinks}

        def has_sinks(daemon: DaemonProcess) -> bool:
            routes = daemon.status()["routes"]
            return (
                {route["sink"] for route in routes} == wanted
                and not any(route["snapshot_tables"] for route in routes)
                and not list(daemon.directory.glob("state/*.snapshots/*.json"))
            )

        for _ in range(2):  # a copy may have begun after the first wait
            party.daemon.until(has_sinks, _LEVEL_SECONDS)
            party.daemon.until_level(_LEVEL_SECONDS)

    def compare(self) -> None:
        """Wait for everything, and compare every destination with its source."""
        for party in self.parties:
            self.level(party)
            for sink in party.daemon.sinks:
                route = party.daemon.route(sink["name"])
                assert not route["set_aside"], route["set_aside"]
            status, text = party.daemon.get("/readyz")
            assert status == 200, text
            for sink in party.daemon.sinks:
                (self._compare_events if sink["type"] in EVENTS else self._compare_mirror)(
                    party, sink
                )
            for kind, table in party.views:
                if kind == "postgres" and any(
                    table in sink["tables"] for sink in party.daemon.sinks if sink["type"] == kind
                ):
                    self._compare_views(party, table)
            for lake in party.lakes:
                expected = functools.partial(self._expected, party, masks=False)
                self.compared += lake.compare(expected, _LEVEL_SECONDS)

    def _compare_views(self, party: Party, table: str) -> None:
        wanted = int(party.source.query(f"SELECT COUNT(*) FROM {table}")[0][0])
        for view in party.views["postgres", table]:
            ((found,),) = self._postgres(f"SELECT count(*) FROM {view}")
            assert found == wanted, f"{view}: {found} rows, {table} has {wanted}"

    def _expected(self, party: Party, table: str, *, masks: bool = True) -> list[dict[str, Any]]:
        database, _, name = table.partition(".")
        columns = party.source.query(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
            "ORDER BY ordinal_position",
            (database, name),
        )
        names = [str(one) for (one,) in columns]
        rows = [
            dict(zip(names, row, strict=True)) for row in source_rows(party.source, database, name)
        ]
        if masks and party.masked and name == MASKED:
            for row in rows:
                row["s"] = MASK
        return rows

    def _compare_mirror(self, party: Party, sink: dict[str, Any]) -> None:
        options = {key: str(value) for key, value in sink.items()}
        for table in sink["tables"]:
            expected = [tuple(row.values()) for row in self._expected(party, table)]
            found = _read(sink["type"], options, table)
            assert found is not None or not expected, f"{table} is not in {sink['name']}"
            self._same(sink, table, list(map(repr, expected)), list(map(repr, found or ())))

    def _compare_events(self, party: Party, sink: dict[str, Any]) -> None:
        consumer = Consumer()
        events = self.there.events(sink)
        self.events += len(events)
        consumer.take(events, keyless=[f"{party.database}.{KEYLESS}"])
        assert not consumer.twice, f"{sink['type']} {sink['name']}: twice {consumer.twice[:3]}"
        for table in sink["tables"]:
            mark = party.marks.get((sink["name"], table))
            rows = consumer.rows(table, mark)
            shown = [
                [[repr([_shown(row.get(name)) for name in BASE]) for row in some]]
                for some in (self._expected(party, table), rows)
            ]
            try:
                self._same(sink, table, shown[0][0], shown[1][0])
            except AssertionError as error:
                last = Counter(
                    (one.at, one.kind) for one in events if table in (one.table, one.renamed)
                )
                text = ", ".join(f"{number} {kind} {at[1]}" for (at, kind), number in last.items())
                raise AssertionError(
                    f"{error}; copied since {mark}; events {text[-3000:]}"
                ) from None

    def _same(self, sink: dict[str, Any], table: str, wanted: list[str], got: list[str]) -> None:
        lacks, more = Counter(wanted) - Counter(got), Counter(got) - Counter(wanted)
        assert not lacks, (
            f"{sink['type']} {sink['name']}: {table}: lacks {len(lacks)} of {len(wanted)}: {list(lacks)[:3]}, "
            f"has {list(more)[:3]} instead"
        )
        assert not more, f"{sink['type']} {sink['name']}: {table}: {list(more)[:3]} too many"
        self.compared += 1


def _shown(value: Any) -> Any:
    return shortest_float(value) if isinstance(value, float) else value


def _read(kind: str, options: dict[str, str], table: str) -> list[tuple[Any, ...]] | None:
    """Return the rows of a mirror; a file of DuckDB is locked while the service writes it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return READERS[kind](options, *table.split("."))
        except Exception as error:
            if "Could not set lock" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _streams(route: dict[str, Any]) -> bool:
    return bool(route["state"] == "streaming")


def _all(daemon: DaemonProcess, count: int) -> bool:
    states = [route["state"] for route in daemon.status()["routes"]]
    return len(states) == count and set(states) <= {"standby", "streaming"}


def _readings(daemon: DaemonProcess) -> int:
    """How often a service read its configuration again."""
    text = daemon.log.read_text(errors="replace")
    return len(re.findall(r"configuration read again|new configuration is refused", text))
