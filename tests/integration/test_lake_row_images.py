"""Lakes of sources whose row images leave columns out: equal to the server's SELECT after every step."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from deltalake.transaction import AddAction

from replica_client.lake.change_log_files import CHANGE_LOG_SCHEMA, commit_files, open_change_log
from replica_client.lake.pipeline.change_stream import write_range
from tests.spark.change_logs import lake_of, ranges_of

TABLES = {
    "orders": "id int primary key, v int, w int, t varchar(20), doc json, made datetime(3), d double, "
    "total int generated always as (v + 1) stored, twice int generated always as (v * 2) virtual, "
    "seen timestamp(3) null on update current_timestamp(3), at date",
    "pairs": "a varchar(9) character set latin1 collate latin1_bin, b date, v int, x text, primary key (a, b)",
    "bag": "v int, t varchar(9), x text",
    "other": "k datetime primary key, v int, x blob",
    "bytes": "k varbinary(4) primary key, v int, u int unique, w int default 7",
}


class Source:
    """A session that changes tables under changing `binlog_row_image`."""

    def __init__(self, cursor: Any, database: str, seed: int, images: tuple[str, ...]) -> None:
        self.cursor, self.rng, self.images = cursor, random.Random(seed), images
        cursor.execute(f"use {database}")
        cursor.execute("set sql_mode = ''")
        for name, columns in TABLES.items():
            cursor.execute(f"create table {name} ({columns}) character set utf8mb4")

    def change(self, statements: int) -> None:
        """So many statements, in transactions."""
        for _ in range(statements):
            self.cursor.execute(f"set session binlog_row_image = {self.rng.choice(self.images)}")
            self.cursor.execute(self._statement())

    def _statement(self) -> str:
        rng = self.rng
        key, v = rng.randrange(40), rng.choice(["null", rng.randrange(5)])
        a, b = rng.choice("aAbBé"), rng.choice(["2026-01-01", "2026-02-00", "0000-00-00"])
        return str(rng.choice((
            "replace into orders (id, v, w, t, made, d, seen, at) "
            f"values ({key}, {v}, 1, 't', now(3), 0.5, null, '{b}')",
            "insert into orders (id, v, w, t, doc, made, d, seen, at) "
            f"values ({key}, 1, 1, 't', '[{key}]', now(3), null, now(3), '{b}') on duplicate key update v = {v}",
            f"update orders set v = {v}, d = v / 7 where id > {key} limit 3",
            f"update orders set w = {key} where id between {key} and {key + 5}",
            f"update orders set doc = '{{\"a\": {key}}}' where id = {key}",
            f"update orders set at = '{b}' where id = {key}",
            f"update ignore orders set id = id + 7 where id = {key}",
            f"update ignore orders set id = id - 7, w = 1 where id between {key} and {key + 9} order by id",
            f"delete from orders where id = {key}",
            f"replace into pairs (a, b, v) values ('{a}', '{b}', {v})",
            f"update pairs set x = 'x{v}' where a = '{a}'",
            f"update pairs set v = {v} where a = '{a}' and b = '{b}'",
            f"update ignore pairs set b = '{b}' where a = '{a}' limit 1",
            f"update ignore pairs set a = 'c' where a = '{a}' and b = '{b}'",
            f"delete from pairs where a = '{a}' and v = {v}",
            f"insert into bag (v, t) values ({v}, 'x'), ({v}, 'x'), ({key}, null)",
            f"update bag set t = 'y{v}' where v = {v} limit 2",
            f"delete from bag where v <=> {v} limit 3",
            f"replace into other (k, v) values ('{b} 10:00:00', {key})",
            f"update other set x = 'b{v}' where v > {key}",
            f"update ignore other set k = '{b} 11:00:00' where v < {key} limit 1",
            f"delete from other where v = {key}",
            f"replace into bytes (k, v, u, w) values (x'{key:02x}', {v}, {key % 9}, 7)",
            f"update ignore bytes set u = {key % 9} where v is null limit 1",
            f"update bytes set v = {v} where w = 7",
            f"update ignore bytes set k = x'{key:02x}ff' where u = {key % 9}",
        )))  # fmt: skip

    def rows(self) -> dict[str, Counter[str]]:
        """The rows of each table."""
        found = {}
        for name in TABLES:
            self.cursor.execute(f"select * from {name}")
            found[name] = server_rows(self.cursor.fetchall())
        return found


def server_rows(rows: Any) -> Counter[str]:
    """Rows of the server, to be compared."""
    return Counter(repr(tuple(map(_plain, row))) for row in rows)


def _plain(value: Any) -> Any:
    # PyMySQL gives the text of dates that Python does not have; of a TIMESTAMP no zone.
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def rows_of(engine: Any, database: str, name: str) -> Counter[str]:
    """The rows of the lake's table, with the texts of dates that Arrow cannot hold."""
    entry = engine.catalog.tables[database, name]
    assert entry.status == "current", entry
    return shown(engine.tables.of(entry).dataset().to_table())


def shown(rows: Any) -> Counter[str]:
    """Rows of the lake as `Source.rows` shows those of the server."""
    found: Counter[str] = Counter()
    for row in rows.to_pylist():
        texts = dict(row.pop("_lossless", None) or ())
        values = {
            column: texts.get(column, value)
            for column, value in row.items()
            if not column.startswith("_")
        }
        found[repr(tuple(map(_plain, values.values())))] += 1
    return found


def log_batch(
    directory: Any, number: int, url: str, start: str, database: str, pipeline: str = "p"
) -> list[Any]:
    """Let the change log of a lake have one more batch; gives its files."""
    log = directory / "lake" / "change_log"
    open_change_log(log, CHANGE_LOG_SCHEMA)
    source, parts = ranges_of(url, tables=f"{database}.*", startingPosition=start)
    files = [file for part in parts for file in write_range(source, part, log)]
    actions = [
        AddAction(one.path, one.size, {}, one.modified, True, one.statistics()) for one in files
    ]
    commit_files(log, pipeline, number, actions)
    return files


def take(
    directory: Any,
    number: int,
    url: str,
    start: str,
    database: str,
    history: Any = None,
    soft_deletes: Any = None,
) -> Any:
    """The engine of a lake that has taken one more batch, and the batch's files."""
    files = log_batch(directory, number, url, start, database)
    lake = directory / "lake"
    return lake_of(lake / "change_log", lake, history=history, soft_deletes=soft_deletes), files


@pytest.mark.parametrize(
    ("seed", "images"),
    [(1, ("MINIMAL",)), (2, ("NOBLOB",)), (3, ("MINIMAL", "NOBLOB", "FULL"))],
)
@pytest.mark.parametrize("name", ["mysql-9.7"])
def test_images_without_columns(server, new_database, tmp_path, name, seed, images):
    source = server(name)
    database = new_database(source)
    moved = partial = 0
    with source.connected() as connection, connection.cursor() as cursor:
        position = ":".join(map(str, source.binlog_position()))
        session = Source(cursor, database, seed, images)
        for number in range(12):
            session.change(40)
            connection.commit()
            engine, files = take(tmp_path, number, source.url(), position, database)
            position = ":".join(map(str, source.binlog_position()))
            partial += sum(file.partial for file in files)
            moved += sum(file.moves for file in files)
            for table, rows in session.rows().items():
                assert rows_of(engine, database, table) == rows, (number, table)
    assert partial > 10
    assert moved or images == ("NOBLOB",)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_a_unique_key_that_servers_call_primary(server, new_database, tmp_path, name):
    """In the binlog's metadata, of a table that has no primary key; equal rows cannot be, but values can."""
    source = server(name)
    database = new_database(source)
    position = ":".join(map(str, source.binlog_position()))
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("create table t (k int not null unique, v int, x text)")
        for number, statement in enumerate((
            "insert into t values (1, 1, null), (2, 2, 'b'), (3, 3, 'c')",
            "update t set v = v + 1 order by k desc",
            "update t set k = k + 1 order by k desc",
            "delete from t where k = 3",
        )):  # fmt: skip
            cursor.execute(statement)
            connection.commit()
            engine, _ = take(tmp_path, number, source.url(), position, database)
            position = ":".join(map(str, source.binlog_position()))
            cursor.execute("select * from t")
            assert rows_of(engine, database, "t") == Counter(map(repr, cursor.fetchall()))


@pytest.mark.parametrize(
    ("name", "key", "statement", "words"),
    [
        ("mysql-9.7", "primary key", "insert into t (id) values (2)",
         "an INSERT leaves out v, w, and the binlog does not have"),
        ("mysql-9.7", "null", "update t set v = 2", ""),
        ("mysql-9.7", "not null unique", "update t set v = 2", "and the table has no primary key"),
        ("mariadb-11.8", "primary key", "update t set v = 2", "an UPDATE leaves out .*: on MariaDB a REPLACE may"),
        ("mariadb-11.8", "primary key", "delete from t", ""),
    ],
)  # fmt: skip
def test_what_images_do_not_tell_is_left_out(
    server, new_database, tmp_path, name, key, statement, words
):
    """By name, and the other tables go on."""
    source = server(name)
    database = new_database(source)
    position = ":".join(map(str, source.binlog_position()))
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute(f"create table t (id int {key}, v int default 5, w int, b blob)")
        cursor.execute("create table other (id int primary key)")
        cursor.execute("insert into t values (1, 1, 1, 'b')")
        connection.commit()
        engine, _ = take(tmp_path, 0, source.url(), position, database)
        position = ":".join(map(str, source.binlog_position()))
        cursor.execute("set session binlog_row_image = MINIMAL")
        cursor.execute(statement)
        cursor.execute("insert into other values (3)")
        connection.commit()
        cursor.execute("select * from t")
        rows = Counter(map(repr, cursor.fetchall()))
    engine, _ = take(tmp_path, 1, source.url(), position, database)
    entry = engine.catalog.tables[database, "t"]
    assert rows_of(engine, database, "other") == Counter(["(3,)"])
    if words:
        assert entry.status == "left_out"
        assert re.search(words, entry.reason), entry.reason
    else:
        assert rows_of(engine, database, "t") == rows


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB", "FULL"])
def test_documents_that_are_logged_in_parts(server, new_database, tmp_path, image):
    """They are whole where the image before has them; else the table is left out, and others go on."""
    source = server("mysql-9.7")
    database = new_database(source)
    position = ":".join(map(str, source.binlog_position()))
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("create table t (id int primary key, v int, j json)")
        cursor.execute("create table other (id int primary key, j json)")
        cursor.execute("create table same (id int primary key, v int, j json, k json)")
        cursor.execute("insert into same values (1, 1, '[1]', null), (2, 1, 'null', '{}')")
        cursor.execute('insert into t values (1, 1, \'{"a": 1, "b": [1, 2]}\'), (2, 2, null)')
        connection.commit()
        engine, _ = take(tmp_path, 0, source.url(), position, database)
        position = ":".join(map(str, source.binlog_position()))
        cursor.execute(f"set session binlog_row_image = {image}")
        cursor.execute("set session binlog_row_value_options = partial_json")
        cursor.execute("update t set j = json_set(j, '$.a', 2) where id = 1")
        cursor.execute("update t set v = 7 where id = 1")
        cursor.execute("update same set j = json_replace(j, '$.nope', 5), v = v + 1")
        cursor.execute("update same set k = json_remove(k, '$.nope'), v = v + 1 where id = 2")
        cursor.execute("select * from same")
        same = Counter(map(repr, cursor.fetchall()))
        # A document that looks like a change of parts inside is none.
        cursor.execute('insert into other values (1, \'{"a": {"$json_diff": 1}}\')')
        connection.commit()
    engine, _ = take(tmp_path, 1, source.url(), position, database)
    [other] = (
        engine.tables.of(engine.catalog.tables[database, "other"]).dataset().to_table().to_pylist()
    )
    assert other == {"id": 1, "j": '{"a": {"$json_diff": 1}}'}
    assert rows_of(engine, database, "same") == same
    entry = engine.catalog.tables[database, "t"]
    if image == "MINIMAL":
        assert (entry.status, entry.reason[:41]) == (
            "left_out",
            "a JSON document was changed in parts (bin",
        )
        return
    rows = engine.tables.of(entry).dataset().to_table().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "v": 7, "j": '{"a": 2, "b": [1, 2]}'}, {"id": 2, "v": 2, "j": None},
    ]  # fmt: skip
