"""Random transactions with savepoints on real servers; the binlog, read in every way, against SELECT."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pymysql

import replica_client as rc
from replica_client.errors import MissingTableMapError
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.stream.transactions.assembler import AssemblyOptions

TABLES = ("t", "u", "w", "m", "k", "r")
# As the server may see one name: case, quotes, a backtick, a space, a keyword, another letter.
NAMES = ("s", "S", "`s`", "`a``b`", "`A``B`", "`two words`", "`select`", "`ä`", '"q"', '"Q"', "`0`")
PADDING = 900
OPTIONS = ("log-bin-trust-function-creators=1", "sync-binlog=0", "innodb-flush-log-at-trx-commit=0")
# With them, MySQL forbids what makes it log a rollback.
WITHOUT_GTIDS = ("gtid-mode=OFF", "enforce-gtid-consistency=OFF")

Tables = dict[str, Counter[Any]]


def create(server: Any, database: str) -> None:
    """Tables of several engines, a trigger that writes two more, procedures and functions with savepoints."""
    engine = "ARIA" if server.flavor == "mariadb" else "MEMORY"
    columns = "(id INT AUTO_INCREMENT PRIMARY KEY, v VARBINARY(1000))"
    for statement in (
        f"CREATE TABLE t {columns} ENGINE=InnoDB",
        f"CREATE TABLE u {columns} ENGINE=InnoDB",
        f"CREATE TABLE w {columns} ENGINE=InnoDB",
        f"CREATE TABLE m {columns} ENGINE=MyISAM",
        f"CREATE TABLE k {columns} ENGINE={engine}",
        "CREATE TRIGGER g AFTER INSERT ON u FOR EACH ROW BEGIN"
        " INSERT INTO w (v) VALUES (NEW.v); INSERT INTO m (v) VALUES (NEW.v); END",
        "CREATE PROCEDURE p() BEGIN SAVEPOINT p1; INSERT INTO t (v) VALUES (UUID()); SAVEPOINT p2;"
        " INSERT INTO u (v) VALUES (UUID()); ROLLBACK TO p2; INSERT INTO t (v) VALUES (UUID()); END",
        # A name that no caller has.
        "CREATE FUNCTION f(n INT) RETURNS INT DETERMINISTIC BEGIN INSERT INTO t (v) VALUES (UUID());"
        " SAVEPOINT inner_; INSERT INTO w (v) VALUES (UUID()); ROLLBACK TO SAVEPOINT inner_;"
        " INSERT INTO w (v) VALUES (n); RETURN n; END",
        # Names of its callers, which go on to have their own savepoints.
        "CREATE FUNCTION set_first(n INT) RETURNS INT DETERMINISTIC BEGIN SAVEPOINT s;"
        " INSERT INTO w (v) VALUES (UUID()); RETURN n; END",
        "CREATE FUNCTION set_later(n INT) RETURNS INT DETERMINISTIC BEGIN INSERT INTO w (v) VALUES (UUID());"
        " SAVEPOINT s; INSERT INTO w (v) VALUES (UUID()); RETURN n; END",
        "CREATE FUNCTION set_last(n INT) RETURNS INT DETERMINISTIC BEGIN INSERT INTO w (v) VALUES (UUID());"
        " SAVEPOINT s; RETURN n; END",
        "CREATE FUNCTION taken_back(n INT) RETURNS INT DETERMINISTIC BEGIN INSERT INTO w (v) VALUES (UUID());"
        " SAVEPOINT s; INSERT INTO w (v) VALUES (UUID()); ROLLBACK TO s; IF n % 2 THEN"
        " INSERT INTO w (v) VALUES (UUID()); END IF; RETURN n; END",
        "CREATE FUNCTION nested(n INT) RETURNS INT DETERMINISTIC BEGIN INSERT INTO t (v) VALUES (UUID());"
        " SAVEPOINT s; SET n = set_later(n); INSERT INTO t (v) VALUES (UUID()); IF n % 2 THEN ROLLBACK TO s;"
        " END IF; RETURN taken_back(n); END",
        "CREATE TABLE r (id INT AUTO_INCREMENT PRIMARY KEY, v VARBINARY(1000)) ENGINE=InnoDB",
        "CREATE TRIGGER h AFTER INSERT ON r FOR EACH ROW BEGIN INSERT INTO w (v) VALUES (NEW.v); SAVEPOINT s;"
        " INSERT INTO w (v) VALUES (NEW.v); IF NEW.id % 2 THEN ROLLBACK TO s; END IF; END",
    ):
        with server.connected(database=database) as connection, connection.cursor() as cursor:
            cursor.execute(statement)


class Programs:
    """Runs random programs of one session after another.

    Args:
        server: where.
        database: with the tables of :func:`create`.
        seed: of the random numbers.
        reuses: whether the caller sets names again. MariaDB's binlog does not tell then which savepoint is meant.
        calls: whether functions and triggers set names of the caller, too.

    Attributes:
        statements: of the program that runs.
        rollbacks: how many ROLLBACK TO SAVEPOINT were done.
    """

    def __init__(self, server: Any, database: str, seed: int, *, reuses: bool, calls: bool) -> None:
        self._server, self._database = server, database
        self._reuses, self._calls = reuses, calls
        self._chance = random.Random(seed)
        self.statements: list[str] = []
        self.rollbacks = 0
        self._names: list[str] = []

    def run(self) -> tuple[list[str], Tables]:
        """One program; what its tables hold then."""
        self.statements = []
        with (
            self._server.connected(database=self._database) as connection,
            connection.cursor() as cursor,
        ):
            for statement in self._program():
                self.statements.append(statement)
                try:
                    cursor.execute(statement)
                except pymysql.err.MySQLError:
                    continue  # a savepoint that is not there, a table that GTIDs forbid
                self.rollbacks += statement.upper().startswith("ROLLBACK") and "TO" in statement
            found: Tables = {}
            for table in TABLES:
                cursor.execute(f"SELECT id, v FROM {table}")
                found[table] = Counter(cursor.fetchall())
        return self.statements, found

    def _program(self) -> Iterator[str]:
        chance = self._chance
        if chance.random() < 0.3:
            yield "SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')"
        mixed = chance.random() < 0.3
        if mixed:
            yield "SET SESSION binlog_format = MIXED"
        if chance.random() < 0.2:
            yield "CREATE TEMPORARY TABLE before_ (a INT)"
        for _ in range(chance.randint(1, 3)):
            yield "BEGIN"
            self._names = []
            if chance.random() < 0.5:
                # Without it nothing that is rolled back is logged.
                yield f"CREATE TEMPORARY TABLE {chance.choice(('x', 'y'))} (a INT)"
            for _ in range(chance.randint(1, 18)):
                yield self._statement(mixed)
            yield chance.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK"))

    def _statement(self, mixed: bool) -> str:
        chance = self._chance
        kind = chance.random()
        if kind < 0.22:
            name = chance.choice(NAMES)
            used = {one.strip('"`').lower() for one in self._names}
            if not self._reuses and name.strip('"`').lower() in used:
                return "DO 1"
            self._names.append(name)
            return f"SAVEPOINT {name}"
        if kind < 0.40:
            how = chance.choice(("TO", "TO SAVEPOINT", "WORK TO", "WORK TO SAVEPOINT"))
            known = self._names if self._names and chance.random() < 0.8 else NAMES
            return f"ROLLBACK {how} {chance.choice(known)}"
        if kind < 0.43:
            return f"RELEASE SAVEPOINT {chance.choice(NAMES)}"
        if kind < 0.52:
            name = chance.choice(("x", "y"))
            return chance.choice(
                (
                    f"CREATE TEMPORARY TABLE {name} (a INT)",
                    f"DROP TEMPORARY TABLE {name}",
                    "DROP TEMPORARY TABLE before_",
                )
            )
        # What MIXED logs as rows, not as text: the value is another one on a replica.
        unsafe = "UUID_SHORT()" if mixed else "7"
        table = chance.choice("tttuuwmk")
        if self._calls and chance.random() < 0.3:
            return self._call(chance.choice(("1", "2", unsafe)))
        if kind < 0.58:
            if "p1" not in self._names and chance.random() < 0.6:
                self._names.append("p1")
                return "CALL p()"
            return f"INSERT INTO k (v) SELECT f({unsafe})"
        if kind < 0.63:
            return f"DELETE FROM {table} WHERE id % 5 = {chance.randint(0, 4)} AND {unsafe} > 0"
        if kind < 0.70:
            return f"UPDATE {table} SET v = CONCAT({unsafe}, RIGHT(v, 5)) WHERE id % 3 = 1"
        if kind < 0.78:
            rows = " UNION ALL ".join(["SELECT 1"] * chance.randint(2, 12))
            return (
                f"INSERT INTO {table} (v) SELECT CONCAT({unsafe}, REPEAT('x', {PADDING}))"
                f" FROM ({rows}) AS some"
            )
        if kind < 0.82:
            # A statement that fails in its midst.
            return f"INSERT INTO {table} (id, v) VALUES (NULL, {unsafe}), (1, {unsafe}), (1, 'two')"
        return f"INSERT INTO {table} (v) VALUES (CONCAT({unsafe}, '{chance.randint(0, 9)}'))"

    def _call(self, value: str) -> str:
        """A statement that calls what has a savepoint named as one of the caller's may be."""
        function = self._chance.choice(
            ("set_first", "set_later", "set_last", "taken_back", "nested")
        )
        return self._chance.choice(
            (
                "CALL p()",
                "INSERT INTO r (v) VALUES ('1'), ('2'), ('3')",
                f"INSERT INTO r (v) SELECT {function}({value})",
                f"DO {function}({value})",
                f"INSERT INTO t (v) SELECT {function}({value})",
                f"INSERT INTO t (v) VALUES ('1'), ({function}({value})), ({function}(2))",
                f"UPDATE t SET v = {function}({value}) WHERE id % 4 = 1",
            )
        )


def apply(tables: Tables, changes: Iterable[rc.Change]) -> None:
    """Let row changes change a model of the tables."""
    for change in changes:
        rows = tables[change.table]
        if change.before is not None:
            row = tuple(change.before)
            assert rows[row] > 0, f"{change} is of a row that is not there"
            rows[row] -= 1
        if change.after is not None:
            rows[tuple(change.after)] += 1


def empty() -> Tables:
    """Tables without rows."""
    return {table: Counter() for table in TABLES}


def _assembly(database: str, part_size: int) -> AssemblyOptions:
    return AssemblyOptions(Selection((f"{database}.*",)), part_size=part_size)


def by_transaction(reader: Any) -> Iterator[list[rc.Change]]:
    """Transactions, whole ones put together of their parts."""
    changes: list[rc.Change] = []
    part = 0
    for transaction in reader.transactions():
        assert transaction.part == part
        part = 0 if transaction.complete else part + 1
        changes += transaction.changes
        if transaction.complete:
            yield changes
            changes = []
    assert not changes


def resumed(paths: list[Any], database: str, start: Position, part_size: int) -> Iterator[Any]:
    """Every transaction and part, each by a reader of its own that begins where the last one ended."""
    position = start
    while True:
        reader = rc.open_binlog(paths, start=position, assembly=_assembly(database, part_size))
        transaction = next(reader.transactions(), None)
        if transaction is None:
            return
        yield from transaction.changes
        assert transaction.position > position
        position = transaction.position


async def followed(server: Any, start: Position, database: str) -> list[rc.Change]:
    """The changes of the live source."""
    found: list[rc.Change] = []
    async with asyncio.timeout(300):
        async with rc.connect(
            server.url(), start=start, tables=f"{database}.*", stop_at_end=True
        ) as stream:
            async for change in stream.changes():
                found.append(change)
    return found


def of_batches(reader: Any) -> list[tuple[str, Any]]:
    """What batches of at most 7 rows say, as (change type, values of each row)."""
    found = []
    for batch in reader.batches(max_rows=7, max_seconds=0):
        for row in batch.to_pylist():
            # Without its CREATE TABLE a table's columns have no names.
            found.append((row["_change_type"], tuple(row.values())[-2:]))
    return found


def flat(changes: Iterable[rc.Change]) -> list[tuple[str, Any]]:
    """Changes in the form of :func:`of_batches`."""
    found: list[tuple[str, Any]] = []
    for change in changes:
        if change.kind == "update":
            found.append(("update_preimage", tuple(change.before or ())))
            found.append(("update_postimage", tuple(change.after or ())))
        else:
            found.append((change.kind, tuple(change.after or change.before or ())))
    return found


def prove(
    server: Any, database: str, seed: int, count: int, say: Callable[[str], None] = print
) -> Counter[str]:
    """Run programs and compare.

    Args:
        server: a local one.
        database: an empty one.
        seed: of the random numbers.
        count: of programs.
        say: is told of each program whose rows differ.

    Returns:
        counts: ``programs``, ``differences``, ``rollbacks`` to savepoints, ``logged`` ones of them,
        ``changes``, and ``resumed``, how often a change was read by a reader that began inside.
    """
    create(server, database)
    server.rotate()
    start = Position(*server.binlog_position())
    programs = Programs(server, database, seed, reuses=server.flavor != "mariadb", calls=False)
    states = _run(server, programs, count)
    paths = _paths(server, start)
    counts = Counter(programs=count, rollbacks=programs.rollbacks)
    everything: list[rc.Change] = []
    for part_size in (1, 4_000, 64 << 20):
        model, at = empty(), start
        for position, statements, tables in states:
            reader = rc.open_binlog(
                paths, start=at, stop=position, assembly=_assembly(database, part_size)
            )
            for changes in by_transaction(reader):
                apply(model, changes)
                everything += changes
            if {name: +rows for name, rows in model.items()} != tables:
                counts["differences"] += 1
                say(f"seed {seed}, part_size {part_size}, {at}: " + "; ".join(statements))
                model = {name: Counter(rows) for name, rows in tables.items()}
            at = position
        if part_size != 64 << 20:
            everything = []
    counts["changes"] = len(everything)
    stop = states[-1][0]
    for event in rc.open_binlog(paths, start=start, stop=stop).events():
        query = getattr(event.body, "query", b"")
        counts["logged"] += query.startswith(b"ROLLBACK TO")
    options: dict[str, Any] = {"start": start, "stop": stop, "tables": f"{database}.*"}
    counts["differences"] += list(rc.open_binlog(paths, **options).changes()) != everything
    batches = of_batches(rc.open_binlog(paths, **options))
    counts["differences"] += sorted(batches) != sorted(flat(everything))
    for part_size in (1, 4_000):
        again = list(resumed(paths, database, start, part_size))
        counts["resumed"] += len(again)
        counts["differences"] += again != everything
    live = asyncio.run(followed(server, start, database))
    counts["differences"] += flat(live) != flat(everything)
    return counts


def prove_reused(
    server: Any, database: str, seed: int, count: int, say: Callable[[str], None] = print
) -> Counter[str]:
    """Run programs that set a name again, also in functions and triggers: rows are right, or refused.

    Args:
        server: a local one.
        database: an empty one.
        seed: of the random numbers.
        count: of programs.
        say: is told of each program whose rows differ.

    Returns:
        counts: ``programs``, ``differences``, ``refused`` ones, ``rollbacks`` to savepoints.
    """
    create(server, database)
    server.rotate()
    at = Position(*server.binlog_position())
    programs = Programs(server, database, seed, reuses=True, calls=True)
    states = _run(server, programs, count)
    paths = _paths(server, at)
    counts = Counter(programs=count, rollbacks=programs.rollbacks)
    model = empty()
    for position, statements, tables in states:
        try:
            apply(
                model,
                rc.open_binlog(paths, start=at, stop=position, tables=f"{database}.*").changes(),
            )
        except (rc.DataLossError, MissingTableMapError):
            # A rollback in a function can cut a table map out of MariaDB's binlog.
            counts["refused"] += 1
        else:
            if {name: +rows for name, rows in model.items()} != tables:
                counts["differences"] += 1
                say(f"seed {seed}, {at}: " + "; ".join(statements))
        model = {name: Counter(rows) for name, rows in tables.items()}
        at = position
    return counts


def _run(server: Any, programs: Programs, count: int) -> list[tuple[Position, list[str], Tables]]:
    """Programs: the position behind each, its statements, and what its tables hold."""
    states = []
    for _ in range(count):
        statements, tables = programs.run()
        states.append((Position(*server.binlog_position()), statements, tables))
    return states


def _paths(server: Any, start: Position) -> list[Any]:
    """The binlog files from a position on."""
    files = server.binlog_files()
    return [server.binlog_path(name) for name in files[files.index(start.file) :]]
