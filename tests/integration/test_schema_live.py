"""Names and types of a live source's rows under the servers' default metadata."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import pytest

import replica_client as rc
from replica_client.rows.selection import Selection
from replica_client.schema.history import STATE_KEY, SchemaChange, SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.stream.live import live_schema
from replica_client.stream.live.live_schema import read_source
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.server_statements import BinlogStatus

SERVERS = {
    "mysql-9.7": "binlog-row-metadata=MINIMAL",
    "mysql-5.6": None,
    "mariadb-10.11": "binlog-row-metadata=NO_LOG",
    "mariadb-11.8": "binlog-row-metadata=MINIMAL",
}
CREATE = "CREATE TABLE d.t (id INT UNSIGNED PRIMARY KEY, e ENUM('a', 'b\\'\\\\c'), v VARCHAR(10)) CHARSET utf8mb4"


@pytest.fixture(params=list(SERVERS))
def minimal(request, fresh_server):
    """Each server with the metadata that it writes by default."""
    option = SERVERS[request.param]
    server = fresh_server(request.param, [] if option is None else [option])
    server.execute("CREATE DATABASE d")
    server.execute(CREATE)
    return server


async def _rows(stream, count: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    async with asyncio.timeout(30):
        async for change in stream.changes():
            row = change.after.as_dict()
            found.append({name: getattr(value, "label", value) for name, value in row.items()})
            if len(found) == count:
                return found
    return found


def _position(server) -> str:
    file, offset = server.binlog_position()
    return f"{file}:{offset}"


async def test_latest_knows_tables_and_follows_ddl(minimal) -> None:
    server = minimal
    async with rc.connect(server.url(), start="latest", tables="d.*") as stream:
        server.execute("INSERT INTO d.t VALUES (4000000000, 2, 'ä')")
        server.execute("DELETE FROM d.t")
        server.execute("ALTER TABLE d.t ADD w INT FIRST, DROP COLUMN v, CHANGE e f ENUM('x')")
        server.execute("INSERT INTO d.t VALUES (7, 8, 'x')")
        items: list[Any] = []
        async with asyncio.timeout(30):
            async for transaction in stream.transactions():
                items.extend(transaction.items)
                if len(items) == 4:
                    break
    first, _, altered, last = items
    [before] = first
    assert before.after.as_dict()["id"] == 4000000000
    assert before.after["e"].label == "b'\\c"
    assert before.after["v"] == "ä"
    assert isinstance(altered, SchemaChange)
    assert (altered.kind, altered.table, altered.understood) == ("alter_table", "t", True)
    assert altered.before.column_names == ("id", "e", "v")
    assert altered.after.column_names == ("w", "id", "f")
    [after] = last
    assert after.after.as_dict() == {"w": 7, "id": 8, "f": after.after["f"]}
    assert after.after["f"].label == "x"


async def test_an_older_start_uses_the_source_only_where_it_is_proven(minimal) -> None:
    server = minimal
    server.execute("CREATE TABLE d.u (id INT, x VARCHAR(9)) CHARSET latin1")
    start = _position(server)
    server.execute("INSERT INTO d.u VALUES (1, 'ö')")
    server.execute("INSERT INTO d.t VALUES (1, 1, 'x')")
    # As many columns of the same types as before, under other names.
    server.execute("ALTER TABLE d.t CHANGE v z VARCHAR(10)")
    server.execute("ALTER TABLE d.u ENGINE=InnoDB")
    server.execute("CREATE TABLE d.w (id INT)")
    options = {"start": start, "stop_at_end": True}
    async with rc.connect(server.url(), tables="d.u", **options) as stream:
        assert await _rows(stream, 9) == [{"id": 1, "x": "ö"}]
    with pytest.raises(
        rc.ReplicaClientError, match=r"d\.t: the names of its columns are not known"
    ):
        async with rc.connect(server.url(), tables="d.t", **options) as stream:
            await _rows(stream, 9)
    positional = AssemblyOptions(Selection("d.t"), on_unknown_table="positional")
    async with rc.connect(server.url(), assembly=positional, **options) as stream:
        [row] = await _rows(stream, 9)
    assert list(row) == ["col_1", "col_2", "col_3"]


async def test_the_history_is_saved_with_the_position(minimal, tmp_path) -> None:
    server = minimal
    path = tmp_path / "position.json"
    options = {"tables": "d.*", "position_store": FilePositionStore(path), "stop_at_end": True}
    async with rc.connect(server.url(), start="latest", **options) as stream:
        await stream.acknowledge(stream.position)
    expected = []
    for number in range(1, 8):
        # Each row is one statement behind the schema that the source has by then.
        server.execute(f"INSERT INTO d.t (id) VALUES ({number})")
        expected.append([f"c{n}" for n in range(number - 1, 0, -1)])
        server.execute(f"ALTER TABLE d.t ADD c{number} INT FIRST")
    found = []
    while len(found) < 7:
        # A new client for each transaction or two: it knows what the one before saved.
        async with rc.connect(server.url(), **options) as stream:
            taken = 0
            async for transaction in stream.transactions():
                found.extend(list(change.after.columns)[:-3] for change in transaction.changes)
                await stream.acknowledge(transaction.position)
                taken += 1
                if taken == 2:
                    break
    assert found == expected
    state = FilePositionStore(path).load_checkpoint().state[STATE_KEY]
    assert len(SchemaHistory.from_state(state).versions(("d", "t"))) >= 7


async def test_reading_while_tables_change_is_consistent(minimal) -> None:
    server = minimal
    stop = asyncio.Event()

    async def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await asyncio.to_thread(server.execute, f"ALTER TABLE d.t ADD x{number} INT")
            await asyncio.to_thread(server.execute, f"INSERT INTO d.t (id) VALUES ({number})")
            await asyncio.sleep(0.4)

    worker = asyncio.create_task(change())
    try:
        for _ in range(3):
            async with rc.connect(server.url(), start="latest", tables="d.t") as stream:
                async with asyncio.timeout(30):
                    async for one in stream.changes():
                        # The newest column of a row is the one that its number names.
                        assert one.after.columns[-1] == f"x{one.after['id']}"
                        break
    finally:
        stop.set()
        await worker


async def test_statement_whose_gtid_is_not_executed_yet(fresh_server, monkeypatch) -> None:
    """MySQL has it in its binlog before that, and a dump by GTID gives it: it must not be done twice."""
    server = fresh_server("mysql-9.7", ["binlog-row-metadata=MINIMAL"])
    server.execute("CREATE DATABASE d")
    server.execute(CREATE)
    ask, asked = SourceConnection.binlog_status, 0
    async with await SourceConnection.open(parse_url(server.url())) as connection:
        early = (await ask(connection)).executed_gtid_set
    server.execute("ALTER TABLE d.t ADD x2 INT")

    async def status_while_it_commits(connection: SourceConnection) -> BinlogStatus:
        nonlocal asked
        asked += 1
        status = await ask(connection)
        return status if asked > 2 else replace(status, executed_gtid_set=early)

    monkeypatch.setattr(SourceConnection, "binlog_status", status_while_it_commits)
    async with rc.connect(server.url(), start="latest", tables="d.*") as stream:
        await asyncio.to_thread(server.execute, "INSERT INTO d.t (id, x2) VALUES (1, 2)")
        # What the source tells now is no proof of what was before.
        await asyncio.to_thread(server.execute, "ALTER TABLE d.t ADD x3 INT")
        async with asyncio.timeout(30):
            change = await anext(stream.changes())
    assert change.after["x2"] == 2


async def test_information_schema_equals_what_ddl_made(any_server, new_database) -> None:
    server = any_server
    database = new_database(server)
    position = rc.Position(*server.binlog_position())
    types = [
        *("INT UNSIGNED", "DECIMAL(7,3)", "BIT(5)", "DOUBLE", "YEAR", "TIME(3)", "TIMESTAMP NULL"),
        *("CHAR(3) CHARSET latin1", "VARCHAR(20) CHARACTER SET ucs2", "TEXT(300)", "TINYBLOB"),
        *("ENUM('a', 'b''c', 'd\\\\e', 'f\\ng') NOT NULL", "SET('x', 'ä')", "BINARY(9)", "POINT"),
    ]
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(types))
    server.execute(
        f"CREATE TABLE {database}.t (id INT, {columns}, PRIMARY KEY (id, c8(4))) CHARSET utf8mb4"
    )
    if server.flavor == "mariadb":
        server.execute(
            f"CREATE TABLE {database}.m (u UUID, j JSON, v TEXT COMPRESSED) WITH SYSTEM VERSIONING"
        )
    async with await SourceConnection.open(parse_url(server.url())) as connection:
        history, _ = await read_source(connection.options, rc.DecodeOptions())
    files = server.binlog_files()
    paths = [server.binlog_path(name) for name in files[files.index(position.file) :]]
    reader = rc.open_binlog(paths, start=position, tables=f"{database}.*")
    for _ in reader.transactions():
        pass
    for name in ("t", "m") if server.flavor == "mariadb" else ("t",):
        stated, made = history.table((database, name)), reader.history.table((database, name))
        assert stated.primary_key == made.primary_key
        # Of a database that was made before, the default character set is not known.
        for one, other in zip(stated.columns, made.columns, strict=True):
            assert one == other or (other.charset is None and one.name in ("u", "j", "v")), (
                one,
                other,
            )


class Altering(threading.Thread):
    """Changes a table without rest, faster than definitions are read."""

    def __init__(self, server, database: str, statements: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self.server, self.database, self.statements = server, database, statements
        self.halt = threading.Event()
        self.count = 0
        self.start()

    def run(self) -> None:
        with self.server.connected(database=self.database) as connection:
            with connection.cursor() as cursor:
                while not self.halt.is_set():
                    for text in self.statements:
                        cursor.execute(text)
                    self.count += 1

    def wait(self, count: int) -> None:
        """Until all statements were done so many times."""
        while self.count < count and self.is_alive():
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.halt.set()
        self.join(30)


ALTERS = ("ALTER TABLE busy ADD b INT DEFAULT 1", "ALTER TABLE busy DROP b")


async def test_statements_that_come_without_rest_leave_their_tables_unknown(
    any_server, new_database, monkeypatch
) -> None:
    """A reading of all definitions, as it is made at "latest" and before a first copy."""
    server = any_server
    database = new_database(server)
    server.execute(f"CREATE TABLE {database}.calm (id INT PRIMARY KEY, t VARCHAR(9))")
    server.execute(f"CREATE TABLE {database}.busy (id INT PRIMARY KEY)")
    monkeypatch.setattr(live_schema, "_SURE_TRIES", 2)
    wanted = rc.Selection(f"{database}.*")
    with Altering(server, database, ALTERS) as altering:
        async with await SourceConnection.open(parse_url(server.url())) as connection:
            # Without this the reading may fall between two statements.
            read = live_schema._read

            async def slowly(*arguments: Any, **options: Any) -> Any:
                done = altering.count
                found = await read(*arguments, **options)
                await asyncio.to_thread(altering.wait, done + 2)
                return found

            monkeypatch.setattr(live_schema, "_read", slowly)
            history, _ = await read_source(connection.options, rc.DecodeOptions(), wanted)
    assert isinstance(history.table((database, "calm")), TableModel)
    assert history.table((database, "busy")) is None
    assert not history.database(database).complete


async def test_statements_on_tables_that_nobody_wants_hold_no_reading_up(
    any_server, new_database, monkeypatch
) -> None:
    server = any_server
    database, other = new_database(server), new_database(server)
    server.execute(f"CREATE TABLE {database}.calm (id INT PRIMARY KEY)")
    server.execute(f"CREATE TABLE {other}.busy (id INT PRIMARY KEY)")
    monkeypatch.setattr(live_schema, "_TRIES", 1)
    with Altering(server, other, ALTERS) as altering:
        await asyncio.to_thread(altering.wait, 1)
        async with await SourceConnection.open(parse_url(server.url())) as connection:
            wanted = rc.Selection(f"{database}.*")
            history, _ = await read_source(connection.options, rc.DecodeOptions(), wanted)
    assert isinstance(history.table((database, "calm")), TableModel)
    assert history.database(database).complete


DOUBTS = {
    "converted": (
        "CREATE TABLE c.t (id INT PRIMARY KEY, n INT) CHARSET utf8mb4",
        "ALTER TABLE c.t CONVERT TO CHARACTER SET koi8r",
        "ALTER TABLE c.t ADD s TEXT",
    ),
    "selected": (
        "CREATE TABLE c.o (id INT PRIMARY KEY, n INT, s TEXT CHARACTER SET utf8mb4)",
        "SET SESSION sql_mode = 'ORACLE'",
        "CREATE TABLE c.t (id INT PRIMARY KEY, n INT, s TEXT) CHARSET utf8mb4 SELECT * FROM c.o",
        "SET SESSION sql_mode = ''",
    ),
    "like": (
        "CREATE DATABASE e CHARACTER SET utf8mb4",
        "CREATE TABLE e.o (id INT PRIMARY KEY, n INT, s TEXT)",
        "CREATE TABLE c.t LIKE e.o",
    ),
    "moved": (
        "CREATE DATABASE e CHARACTER SET utf8mb4",
        "CREATE TABLE e.o (id INT PRIMARY KEY, n INT, s TEXT)",
        "RENAME TABLE e.o TO c.t",
    ),
}


@pytest.mark.parametrize(
    ("name", "doubt"),
    [
        (name, doubt)
        for name in ("mysql-5.6", "mariadb-10.11")
        for doubt in DOUBTS
        # MySQL 5.6 with GTIDs has no CREATE TABLE … SELECT.
        if (name, doubt) != ("mysql-5.6", "selected")
    ],
)
@pytest.mark.parametrize("purged", [False, True], ids=["whole", "purged"])
def test_an_unknown_character_set_is_not_that_of_the_database(
    fresh_server, name: str, purged: bool, doubt: str
) -> None:
    """The table was altered since, so that the source cannot tell: the text is right, or its table is named."""
    server = fresh_server(name)
    statements = ["CREATE DATABASE c CHARACTER SET cp1251", *DOUBTS[doubt]]
    with server.connected() as connection, connection.cursor() as cursor:
        for statement in statements[:2] if purged else ():
            cursor.execute(statement)
        if purged:  # the stream begins after the first definitions
            cursor.execute("FLUSH BINARY LOGS")
            file, _ = server.binlog_position()
            cursor.execute(f"PURGE BINARY LOGS TO '{file}'")
        for statement in statements[2:] if purged else statements:
            cursor.execute(statement)
        cursor.execute("INSERT INTO c.t (id, n, s) VALUES (1, 1, _utf8mb4 x'D0B6D18F')")
        cursor.execute("COMMIT")
        cursor.execute("ALTER TABLE c.t DROP COLUMN n")

    async def read() -> list[dict[str, object]]:
        options = {"start": "earliest", "stop_at_end": True, "tables": ["c.t"]}
        async with rc.connect(server.url(), **options) as stream:
            return [one.after.as_dict() async for one in stream.changes()]

    try:
        found = asyncio.run(read())
    except rc.ReplicaClientError as error:
        assert "c.t" in str(error)
    else:
        assert found == [{"id": 1, "n": 1, "s": "жя"}]
