"""What cannot be delivered as rows, on real servers: an error, or a record that the position carries."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import BinlogPurgedError, UnknownTableError
from replica_client.rows.selection import Selection
from replica_client.schema.history import STATE_KEY
from replica_client.stream.position.losses import LOSSES_KEY
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.transactions.assembler import AssemblyOptions
from tests import processes

CREATE = "CREATE TABLE {} (id INT PRIMARY KEY, a VARCHAR(20), d DATE) CHARSET utf8mb4"


def _run(server: Any, *statements: str) -> None:
    """Statements of one session."""
    with server.connected() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def _start(server: Any) -> str:
    file, offset = server.binlog_position()
    return f"{file}:{offset}"


async def _follow(server: Any, start: str, tables: str, **options: Any) -> list[Any]:
    """Items of all transactions; rows events as lists of changes."""
    found: list[Any] = []
    async with asyncio.timeout(60):
        async with rc.connect(
            server.url(), start=start, tables=tables, stop_at_end=True, **options
        ) as stream:
            async for item in stream.changes(notices=True):
                found.append(item)
            await stream.acknowledge(stream.position)
    return found


def _files(server: Any, start: str, tables: str, **options: Any) -> list[Any]:
    files = server.binlog_files()
    paths = [server.binlog_path(name) for name in files[files.index(start.split(":")[0]) :]]
    return list(rc.open_binlog(paths, start=start, tables=tables, **options).changes(notices=True))


def _kinds(items: list[Any]) -> list[str]:
    return [getattr(item, "kind", "") for item in items]


async def test_statements_logged_as_text(any_server, new_database) -> None:
    server, database = any_server, new_database(any_server)
    start = _start(server)
    server.execute(CREATE.format(f"{database}.t"))
    server.execute(CREATE.format(f"{database}.other"))
    _run(
        server,
        f"INSERT INTO {database}.t VALUES (1, 'row', NULL)",
        "SET SESSION binlog_format = STATEMENT",
        f"UPDATE {database}.t SET a = 'text'",
        f"DELETE FROM {database}.other",
        f"CREATE TEMPORARY TABLE {database}.tmp (id INT)",
        f"INSERT INTO {database}.tmp VALUES (7)",
        f"DROP TEMPORARY TABLE {database}.tmp",
    )
    server.execute(f"INSERT INTO {database}.t VALUES (2, 'row', NULL)")
    with pytest.raises(rc.DataLossError, match="logged as text.*UPDATE"):
        await _follow(server, start, f"{database}.t")
    # Other tables', and temporary ones, are not our rows.
    assert (
        _kinds(await _follow(server, start, f"{database}.tm*", allow_empty=True))
        == ["create_database"][:0]
    )
    items = await _follow(server, start, f"{database}.t", record_losses="statement")
    assert _kinds(items) == ["create_table", "insert", "statement", "insert"]
    loss = items[2]
    assert isinstance(loss, rc.Loss)
    assert (loss.database, loss.table, loss.count) == (database, "t", 1)
    assert "UPDATE" in loss.reason
    assert _files(server, start, f"{database}.t", record_losses=["all"])[2] == loss


async def test_a_table_filled_by_its_own_text(any_server, new_database) -> None:
    """CREATE … SELECT and functions in statement format name no rows."""
    server, database = any_server, new_database(any_server)
    server.execute(CREATE.format(f"{database}.t"))
    server.execute(f"INSERT INTO {database}.t VALUES (1, 'x', NULL)")
    server.execute(
        f"CREATE FUNCTION {database}.f() RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
        f" BEGIN INSERT INTO {database}.t VALUES (2, 'f', NULL); RETURN 1; END"
    )
    start = _start(server)
    _run(server, "SET SESSION binlog_format = STATEMENT", f"SELECT {database}.f()")
    with pytest.raises(rc.DataLossError, match="logged as text"):
        _files(server, start, f"{database}.*")
    if server.name == "mysql-5.6":
        return  # with GTIDs it refuses CREATE … SELECT
    start = _start(server)
    _run(
        server,
        "SET SESSION binlog_format = STATEMENT",
        f"CREATE TABLE {database}.copy ENGINE=InnoDB SELECT * FROM {database}.t",
    )
    with pytest.raises(rc.DataLossError, match="logged as text"):
        _files(server, start, f"{database}.copy")
    assert _files(server, start, f"{database}.t") == []


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
async def test_words_before_a_statement(server, new_database, name: str) -> None:
    """MariaDB logs them with it."""
    mariadb = server(name)
    database = new_database(mariadb)
    mariadb.execute(CREATE.format(f"{database}.t"))
    for prefix in ("SET STATEMENT max_statement_time = 9 FOR", "ANALYZE", "ANALYZE FORMAT=JSON"):
        start = _start(mariadb)
        insert = f"{prefix} REPLACE INTO {database}.t VALUES (1, 'x', NULL)"
        _run(mariadb, "SET SESSION binlog_format = STATEMENT", insert)
        with pytest.raises(rc.DataLossError, match="logged as text"):
            await _follow(mariadb, start, f"{database}.t")
        # The source tells that the other name is a table's, and no view's of a wanted one; files cannot.
        assert await _follow(mariadb, start, f"{database}.u*", allow_empty=True) == []
        with pytest.raises(rc.DataLossError, match="not known to be a table's"):
            _files(mariadb, start, f"{database}.u*")


async def test_rows_that_cannot_be_decoded(any_server, new_database) -> None:
    server, database = any_server, new_database(any_server)
    server.execute(CREATE.format(f"{database}.t"))
    start = _start(server)
    _run(
        server,
        "SET SESSION sql_mode = ''",
        f"INSERT INTO {database}.t VALUES (1, 'a', '2020-01-01')",
        f"INSERT INTO {database}.t VALUES (2, 'b', '2020-01-02'), (3, 'c', '0000-00-00')",
        f"INSERT INTO {database}.t VALUES (4, 'd', '2020-01-04')",
    )
    options = {"options": rc.DecodeOptions(temporals="python")}
    with pytest.raises(rc.BinlogDecodeError):
        await _follow(server, start, f"{database}.t", **options)
    options["record_losses"] = "undecodable"
    items = await _follow(server, start, f"{database}.t", **options)
    assert [
        getattr(one, "count", 0) if isinstance(one, rc.Loss) else one.after[0] for one in items
    ] == [
        *(1, None, 4),
    ]
    async with rc.connect(
        server.url(), start=start, tables=f"{database}.t", stop_at_end=True, **options
    ) as stream:
        batches = [item async for item in stream.batches(notices=True)]
        [count] = stream.losses.counts
    assert [getattr(one, "num_rows", "loss") for one in batches] == [1, "loss", 1]
    assert (count.kind, count.events, count.uncounted) == ("undecodable", 1, 1)


async def test_row_images_that_lack_columns(any_server, new_database) -> None:
    server, database = any_server, new_database(any_server)
    server.execute(CREATE.format(f"{database}.t"))
    start = _start(server)
    _run(
        server,
        f"INSERT INTO {database}.t VALUES (1, 'a', NULL)",
        "SET SESSION binlog_row_image = MINIMAL",
        f"UPDATE {database}.t SET a = 'b'",
    )
    whole = await _follow(server, start, f"{database}.t")
    assert whole[1].after["id"] is rc.ABSENT
    with pytest.raises(rc.DataLossError, match=r"lack a, d, id; set binlog_row_image=FULL"):
        await _follow(server, start, f"{database}.t", full_rows=True)
    with pytest.raises(rc.DataLossError, match="lack"):
        list(
            rc.open_binlog(
                [server.binlog_path(server.binlog_files()[-1])],
                start=start,
                tables=f"{database}.t",
                full_rows=True,
            ).batches()
        )
    options = {"full_rows": True, "record_losses": "incomplete_row"}
    items = await _follow(server, start, f"{database}.t", **options)
    assert _kinds(items) == ["insert", "incomplete_row", "update"]
    assert items[1].count == 1
    # Only columns that are wanted count.
    only = await _follow(server, start, f"{database}.t", columns=["nothing"], full_rows=True)
    assert _kinds(only) == ["insert", "update"]


async def test_tables_whose_shape_is_unknown(fresh_server, tmp_path) -> None:
    """The counts survive a new client, and come out of the command."""
    server = fresh_server("mariadb-11.8", ["binlog-row-metadata=MINIMAL"])
    server.execute("CREATE DATABASE d")
    server.execute(CREATE.format("d.t"))
    server.rotate()
    start = _start(server)
    server.execute("INSERT INTO d.t VALUES (1, 'a', NULL), (2, 'b', NULL)")
    server.execute("ALTER TABLE d.t CHANGE a z VARCHAR(20)")
    server.execute("INSERT INTO d.t VALUES (3, 'c', NULL)")
    with pytest.raises(UnknownTableError):
        await _follow(server, start, "d.*")
    path = tmp_path / "position.json"
    options = {"record_losses": "unknown_table", "position_store": FilePositionStore(path)}
    items = await _follow(server, start, "d.*", **options)
    # What the table looks like now is proven for what follows the last ALTER.
    assert _kinds(items) == ["unknown_table", "alter_table", "insert"]
    assert items[0].count == 2
    [saved] = _saved(FilePositionStore(path))
    assert (saved["table"], saved["events"], saved["count"]) == ("t", 1, 2)
    # A new client counts on.
    server.execute("INSERT INTO d.t VALUES (4, 'd', NULL)")
    assert _kinds(await _follow(server, "earliest", "d.*", **options)) == ["insert"]
    [saved] = _saved(FilePositionStore(path))
    assert saved["count"] == 2
    shown = _command("schema", "show", str(path))
    assert "lost: unknown_table of d.t: 2 rows in 1 events" in shown.stdout
    shown = _command("position", "show", str(path), "--json")
    assert json.loads(shown.stdout.splitlines()[1])["lost"]["count"] == 2, shown.stderr
    # Another position is not another past.
    assert _command("position", "set", str(path), start).returncode == 0
    assert "lost: unknown_table of d.t: 2 rows" in _command("position", "show", str(path)).stdout
    # The command, from files: stops, or counts.
    files = server.binlog_files()
    paths = [str(server.binlog_path(name)) for name in files[files.index(start.split(":")[0]) :]]
    command = ["changes", *paths, "--start", start, "--json"]
    second = tmp_path / "second.json"
    # In files an unknown table's columns are named by position: nothing is lost.
    run = _command(*command, "--position-file", str(second), "--record-losses", "all")
    assert run.returncode == 0, run.stderr
    assert "lost" not in run.stderr
    wrong = _command(*command, "--record-losses", "everything")
    assert wrong.returncode == 2
    assert "is not one of all, statement" in wrong.stderr


def _saved(store: FilePositionStore) -> list[dict[str, Any]]:
    checkpoint = store.load_checkpoint()
    assert checkpoint is not None
    found: Any = checkpoint.state[LOSSES_KEY]
    return list(found)


async def test_counts_are_the_same_wherever_a_client_is_replaced(fresh_server) -> None:
    """In a transaction that comes in parts: each loss is counted by exactly one client."""
    server = fresh_server("mysql-9.7", ["binlog-row-metadata=MINIMAL"])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.u (a INT)")
    start = rc.Position(*server.binlog_position())
    server.execute("CREATE TABLE d.t (id INT)")
    for _ in range(2):
        with server.connected() as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for row in range(6):
                cursor.execute(f"INSERT INTO d.t VALUES ({row})")
                cursor.execute(f"INSERT INTO d.u VALUES ({row}), (7)")
            connection.commit()
    paths = [server.binlog_path(name) for name in server.binlog_files()]
    assembly = AssemblyOptions(
        Selection("d.*"), part_size=1, on_unknown_table="error", record_losses="unknown_table"
    )
    whole = rc.open_binlog(paths, start=start, assembly=assembly)
    positions = [transaction.position for transaction in whole.transactions()]
    assert len(positions) > 12
    assert [(count.events, count.count) for count in whole.losses.counts] == [(12, 24)]
    for replaced in range(len(positions)):
        first = rc.open_binlog(paths, start=start, assembly=assembly)
        transactions = first.transactions()
        for _ in range(replaced + 1):
            transaction = next(transactions)
        saved = first.state(transaction.position)
        second = rc.open_binlog(
            paths,
            start=transaction.position,
            assembly=assembly,
            schema=rc.SchemaHistory.from_state(saved[STATE_KEY]),
            losses=rc.LossLedger.from_state(saved.get(LOSSES_KEY, [])),
        )
        rest = [one.position for one in second.transactions()]
        assert rest == positions[replaced + 1 :]
        assert [(count.events, count.count) for count in second.losses.counts] == [(12, 24)]


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    return processes.run(
        [sys.executable, "-m", "replica_client", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_one_absent_column_of_ten(any_server, new_database) -> None:
    """Whole rows go the fast way to batches; one without its BLOB is found there."""
    server, database = any_server, new_database(any_server)
    columns = ", ".join(f"c{number} INT" for number in range(8))
    start = _start(server)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, {columns}, b BLOB)")
    numbers = ", ".join("1" * 8)
    _run(server, *(f"INSERT INTO {database}.t VALUES ({row}, {numbers}, 'x')" for row in range(5)))
    options = {"start": start, "tables": f"{database}.t", "full_rows": True}
    paths = [server.binlog_path(server.binlog_files()[-1])]
    [batch] = rc.open_binlog(paths, **options).batches()
    assert batch.column("id").to_pylist() == list(range(5))
    _run(
        server,
        "SET SESSION binlog_row_image = NOBLOB",
        f"UPDATE {database}.t SET c1 = 2 WHERE id = 3",
    )
    with pytest.raises(rc.DataLossError, match=r"t lack b; set binlog_row_image=FULL"):
        list(rc.open_binlog(paths, **options).batches())
    reader = rc.open_binlog(paths, **options, record_losses="incomplete_row")
    found = list(reader.batches(notices=True))
    kinds = [getattr(item, "num_rows", None) or item.kind for item in found]
    assert kinds == ["create_table", 5, "incomplete_row", 2]
    async with rc.connect(server.url(), stop_at_end=True, **options) as stream:
        with pytest.raises(rc.DataLossError, match="lack b"):
            async for _ in stream.batches():
                pass


GTIDS = {
    "mysql-9.7": ["gtid-mode=ON", "enforce-gtid-consistency=ON"],
    "mysql-5.6": ["gtid-mode=ON", "enforce-gtid-consistency=ON", "log-slave-updates"],
    "mariadb-10.11": [],
    "mariadb-11.8": [],
}


@pytest.fixture(params=list(GTIDS))
def gapped(request, fresh_server) -> Any:
    """A server with three binlog files, of which each holds two rows of d.t."""
    server = fresh_server(request.param, GTIDS[request.param])
    server.execute("CREATE DATABASE d")
    server.execute(CREATE.format("d.t"))
    for number in range(0, 6, 2):
        if number:
            server.rotate()
        for row in (number, number + 1):
            server.execute(f"INSERT INTO d.t VALUES ({row}, 'x', NULL)")
    return server


async def test_gaps_between_files(gapped, tmp_path) -> None:
    server = gapped
    last = server.binlog_files()[-3:]
    whole = rc.open_binlog([server.binlog_path(name) for name in last], tables="d.t")
    assert [change.after[0] for change in whole.changes()] == list(range(6))
    with_gap = [server.binlog_path(last[0]), server.binlog_path(last[2])]
    with pytest.raises(rc.DataLossError, match="transactions that never came|files are missing"):
        list(rc.open_binlog(with_gap, tables="d.t").changes())
    with pytest.raises(rc.DataLossError, match="transactions that never came|files are missing"):
        list(rc.open_binlog(with_gap, tables="d.t").batches())
    reader = rc.open_binlog(with_gap, tables="d.t", record_losses="gtid_gap")
    items = list(reader.changes(notices=True))
    kinds = [kind for kind in _kinds(items) if not kind.startswith("create")]
    assert kinds == ["insert", "insert", "gtid_gap", "insert", "insert"]
    [loss] = [item for item in items if isinstance(item, rc.Loss)]
    assert loss.count == 2
    assert reader.losses.counts[0].count == 2
    path = tmp_path / "position.json"
    run = _command(
        *("changes", *map(str, with_gap), "--tables", "d.t", "--json"),
        *("--record-losses", "gtid_gap", "--position-file", str(path)),
    )
    assert run.returncode == 0, run.stderr
    assert "lost: gtid_gap: 2 transactions in 1 events" in run.stderr
    assert json.loads(path.read_text())["state"][LOSSES_KEY][0]["count"] == 2


async def test_a_purged_source(gapped, tmp_path) -> None:
    """By GTID, behind what is gone: the loss is counted once, and nothing comes twice."""
    server = gapped
    path = tmp_path / "position.json"
    store = FilePositionStore(path)
    async with rc.connect(
        server.url(), start="earliest", tables="d.t", position_store=store
    ) as stream:
        async for transaction in stream.transactions():
            if [change.after[0] for change in transaction.changes] == [0]:
                await stream.acknowledge(transaction.position)
                break
    server.rotate()
    server.execute("INSERT INTO d.t VALUES (6, 'x', NULL)")
    keep = server.binlog_files()[-2]
    while server.binlog_files()[0] != keep:
        # MariaDB keeps files as long as a crash recovery may need them.
        server.execute(f"PURGE BINARY LOGS TO '{keep}'")
        await asyncio.sleep(0.1)
    with pytest.raises(BinlogPurgedError):
        await _follow(server, "earliest", "d.t", position_store=store)
    options = {"position_store": store, "record_losses": "gtid_gap"}
    items = await _follow(server, "earliest", "d.t", **options)
    [loss] = [item for item in items if isinstance(item, rc.Loss)]
    rows = [item.after[0] for item in items if isinstance(item, rc.Change)]
    assert loss.count == 3 and rows == [4, 5, 6]
    assert items[0] is loss
    server.execute("INSERT INTO d.t VALUES (7, 'x', NULL)")
    items = await _follow(server, "earliest", "d.t", **options)
    assert [item.after[0] for item in items] == [7]
    [saved] = _saved(store)
    assert (saved["kind"], saved["count"], saved["events"]) == ("gtid_gap", 3, 1)


async def test_holes_and_disorder_are_no_gaps(gapped) -> None:
    """GTIDs that were given by hand, out of order or with holes, are in the binlog as they are."""
    server = gapped
    with server.connected() as connection, connection.cursor() as cursor:
        for number in range(10, 16):
            server.rotate()
            if server.flavor == "mariadb":
                # Another server's number is smaller than ours; another domain begins.
                cursor.execute(f"SET SESSION server_id = {number % 3 + 70}")
                cursor.execute(f"SET SESSION gtid_domain_id = {number % 2}")
                cursor.execute(f"SET SESSION gtid_seq_no = {200 - 7 * number}")
            else:
                sid = "3e11fa47-71ca-11e1-9e33-c80aa942956" + str(number % 2)
                cursor.execute(f"SET SESSION gtid_next = '{sid}:{200 - 7 * number}'")
            cursor.execute(f"INSERT INTO d.t VALUES ({number}, 'x', NULL)")
            connection.commit()
        if server.flavor == "mysql":
            cursor.execute("SET SESSION gtid_next = 'AUTOMATIC'")
        cursor.execute("INSERT INTO d.t VALUES (16, 'x', NULL)")
        connection.commit()
    server.rotate()
    server.execute("INSERT INTO d.t VALUES (17, 'x', NULL)")
    paths = [server.binlog_path(name) for name in server.binlog_files()]
    wanted = [*range(6), *range(10, 18)]
    rows = [change.after["id"] for change in rc.open_binlog(paths, tables="d.t").changes()]
    assert rows == wanted
    positions = [
        transaction.position
        for transaction in rc.open_binlog(paths, tables="d.t").transactions()
        if any(transaction.changes)
    ]
    for done in (0, 5, 7, 9, 12):
        items = await _follow(server, str(positions[done]), "d.t")
        assert [item.after["id"] for item in items] == wanted[done + 1 :]
