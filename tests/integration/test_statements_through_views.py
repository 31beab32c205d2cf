"""Statements logged as text that change wanted tables under another name."""

from __future__ import annotations

import asyncio

import pytest

import replica_client as rc

MADE = (
    "CREATE DATABASE x",
    "CREATE DATABASE y",
    "CREATE TABLE x.t (a INT PRIMARY KEY, b INT)",
    "CREATE TABLE y.u (a INT PRIMARY KEY, b INT)",
    "CREATE TABLE y.`t` (a INT)",
    "CREATE VIEW y.v AS SELECT a, b FROM x.t",
    "CREATE VIEW y.w AS SELECT * FROM y.v",
    "CREATE ALGORITHM=MERGE VIEW y.j AS SELECT x.t.a, x.t.b, y.u.b AS c FROM x.t JOIN y.u ON x.t.a = y.u.a",
    "INSERT INTO x.t VALUES (1, 1), (2, 2)",
    "INSERT INTO y.u VALUES (1, 1), (2, 2)",
)
# Statements that change rows of x.t.
CHANGES = (
    "INSERT INTO y.v VALUES (3, 3)",
    "REPLACE INTO y.v VALUES (1, 3)",
    "INSERT INTO y.w (a) VALUES (3)",
    "INSERT INTO y.j (a, b) VALUES (3, 3)",
    "INSERT INTO y.v SELECT a + 10, b FROM y.u",
    "UPDATE y.v SET b = 7",
    "UPDATE y.j SET b = 7 WHERE a = 1",
    "UPDATE y.u, y.v SET y.v.b = 7 WHERE y.u.a = y.v.a",
    "DELETE FROM y.v",
    "DELETE FROM y.w WHERE a = 1",
    "DELETE y.v FROM y.v JOIN y.u ON y.v.a = y.u.a",
    "DELETE FROM y.v USING y.v JOIN y.u ON y.v.a = y.u.a",
    "/* a comment */ INSERT INTO y.v VALUES (4, 4)",
)
PREPARED = ("PREPARE p FROM 'INSERT INTO y.v VALUES (5, 5)'", "EXECUTE p")
CALLED = ("CREATE PROCEDURE y.p() INSERT INTO y.v VALUES (6, 6)", "CALL y.p()")
# Statements that change none.
OTHERS = (
    "INSERT INTO y.u VALUES (3, 3)",
    "UPDATE y.u JOIN y.t USING (a) SET y.u.b = 1",
    "DELETE FROM y.u WHERE a = 2",
    "CREATE TABLE y.made SELECT 1 AS a",
    "INSERT INTO y.made VALUES (7)",
)


def _read(source, **options) -> list[rc.Change]:
    async def take() -> list[rc.Change]:
        async with (
            asyncio.timeout(30),
            rc.connect(source.url(), tables=["x.t"], stop_at_end=True, **options) as stream,
        ):
            return [change async for change in stream.changes()]

    return asyncio.run(take())


@pytest.fixture
def as_text(server, request):
    """A server with the tables; sessions of root log statements as text."""
    source = server(request.param)
    for name in ("x", "y"):
        source.execute(f"DROP DATABASE IF EXISTS {name}")
    source.reset_binlog()
    source.execute("SET binlog_format = ROW")
    for statement in MADE:
        source.execute(statement)
    source.execute("SET binlog_format = STATEMENT")
    yield source
    source.disconnect()
    for name in ("x", "y"):
        source.execute(f"DROP DATABASE IF EXISTS {name}")


SERVERS = pytest.mark.parametrize(
    "as_text", ["mysql-9.7", "mysql-5.6", "mariadb-11.8"], indirect=True
)


@SERVERS
def test_every_change_through_a_view_is_refused_or_recorded(as_text) -> None:
    texts: list[tuple[str, ...]] = [(one,) for one in CHANGES]
    texts += [PREPARED, CALLED]
    if as_text.flavor == "mariadb":
        texts.append(("INSERT INTO y.v VALUES (8, 8) RETURNING a",))
    for statements in texts:
        as_text.execute("SET binlog_format = ROW")
        as_text.execute("REPLACE INTO y.u VALUES (1, 1), (2, 2)")
        as_text.execute("DELETE FROM x.t")
        as_text.execute("INSERT INTO x.t VALUES (1, 1), (2, 2)")
        as_text.execute("SET binlog_format = STATEMENT")
        as_text.rotate()
        file, offset = as_text.binlog_position()
        as_text.execute("START TRANSACTION")
        for statement in statements:
            as_text.execute(statement)
        as_text.execute("COMMIT")
        start = f"{file}:{offset}"
        with pytest.raises(rc.DataLossError, match="logged as text"):
            _read(as_text, start=start)
        with pytest.raises(rc.DataLossError, match="logged as text"):
            list(rc.open_binlog(as_text.binlog_path(file), tables=["x.t"]).changes())


@SERVERS
def test_from_earliest(as_text) -> None:
    as_text.execute("INSERT INTO y.v VALUES (9, 9)")
    with pytest.raises(rc.DataLossError, match=r"y\.v, that is not known to be a table's"):
        _read(as_text, start="earliest")
    found = _read(as_text, start="earliest", record_losses=["statement"])
    assert [change.after["a"] for change in found] == [1, 2]


@SERVERS
def test_other_tables_stop_nothing(as_text) -> None:
    as_text.rotate()
    file, offset = as_text.binlog_position()
    for statement in OTHERS:
        if "made" not in statement or as_text.name != "mysql-5.6":  # it has GTIDs, and refuses it
            as_text.execute(statement)
    as_text.execute("SET binlog_format = ROW")
    as_text.execute("INSERT INTO x.t VALUES (10, 10)")
    # The statements before tell what they are, and where those are not read, the source does.
    for start in ("earliest", f"{file}:{offset}"):
        assert [change.after["a"] for change in _read(as_text, start=start)][-1] == 10


@SERVERS
def test_load_data_into_a_view(as_text) -> None:
    with as_text.connect(local_infile=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@global.local_infile")
        if not cursor.fetchone()[0]:
            cursor.execute("SET GLOBAL local_infile = ON")
        cursor.execute("SET binlog_format = STATEMENT")
        path = as_text.datadir.parent / "tmp" / "rows.txt"
        path.write_text("20\t20\n")
        cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE y.v")
        connection.commit()
    with pytest.raises(rc.DataLossError, match="LOAD DATA"):
        _read(as_text, start="earliest")
