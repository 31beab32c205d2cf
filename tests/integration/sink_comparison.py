"""What a sink holds, against its source: the tables of a mirror, the changes in order of the others.

One function for all sinks::

    compare_sink("sqlite", options, server, tables=["shop.orders", "shop.lines"])
    compare_sink("file", options, server, tables=["shop.*"], start=position)

``options`` are the sink's own. It raises ``AssertionError`` when something is missing, repeated beyond
the sink's guarantee, reordered or wrong, and returns what was compared. The source must be quiet, and
the sink have got everything (its checkpoint at the source's end).

A mirror is compared with the source's own SELECT. The others are compared with the changes in the
source's binlog files, read by the file reader from ``start`` on (default: the first that is there).
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from replica_client import Position, open_binlog
from replica_client.schema.names import sqlite_name
from replica_client.sinks.formats.line_format import make_format
from replica_client.sinks.mirror.stored_names import sqlite_names
from replica_client.sinks.parquet_segments import read_journal
from replica_client.stream.transport.connect_options import parse_url
from replica_client.testing.sink_conformance import assert_repeats
from tests.integration.mirror_source import GEOMETRIES, shortest_float, source_rows, source_tables
from tests.servers.local import LocalServer
from tests.servers.server import Address, Server


@dataclass(frozen=True)
class Compared:
    """What was compared.

    Attributes:
        tables: number of tables.
        rows: rows of a mirror, or lines of the others.
        repeated: how many came more than once (at least once).
    """

    tables: int
    rows: int
    repeated: int = 0


def compare_sink(
    kind: str,
    options: Mapping[str, Any],
    server: LocalServer,
    *,
    tables: Sequence[str],
    start: Position | str | None = None,
    stop: Position | str | None = None,
    output: Path | None = None,
) -> Compared:
    """Compare what a sink holds with its source.

    Args:
        kind: the sink's name.
        options: its table of the configuration.
        server: the source.
        tables: patterns ``database.table``.
        start: where the sink began; None: at the first binlog file that is there.
        stop: up to where it came; None: all.
        output: of the sink ``stdout``: a file with all its lines.

    Raises:
        AssertionError: they differ.
    """
    if kind in MIRRORS:
        return _compare_mirror(MIRRORS[kind], options, server, tables)
    if kind == "file":
        name = options.get("name", "changes")
        got = file_lines(Path(options["path"]), name)
        return compare_lines(got, options, server, tables, start, stop, exactly=True)
    if kind == "stdout":
        assert output is not None, "stdout: output is wanted"
        got = text_lines(output.read_text("utf-8"))
        return compare_lines(got, options, server, tables, start, stop, exactly=False)
    if kind == "redis":
        return compare_lines(
            redis_lines(options), options, server, tables, start, stop, exactly=True
        )
    if kind == "parquet":
        return _compare_parquet(options, server, tables, start, stop)
    raise AssertionError(f"no comparison of {kind}")


def file_lines(directory: Path, name: str = "changes") -> list[str]:
    """The committed lines of the sink ``file``, of all its files in order."""
    checkpoint = directory / f"{name}.checkpoint.json"
    if not checkpoint.exists():
        return []
    saved = json.loads(checkpoint.read_text())["with"]
    lines: list[str] = []
    for path in sorted(directory.glob(f"{name}-*.jsonl")):
        number = int(path.stem.rpartition("-")[2])
        data = path.read_bytes()
        if number == saved["file"]:
            data = data[: saved["length"]]
        elif number > saved["file"]:
            continue
        lines += text_lines(data.decode())
    return lines


def text_lines(text: str) -> list[str]:
    """Lines that end with a newline and nothing else: values may hold other separators."""
    return text.removesuffix("\n").split("\n") if text else []


def redis_lines(options: Mapping[str, Any]) -> list[str]:
    """The values of all entries of the sink ``redis``."""
    from redis import Redis

    with Redis.from_url(options["url"]) as client:
        entries = client.xrange(options.get("stream", "replica_client"))
        return [entry[b"value"].decode() for _, entry in entries]


def expected_lines(
    options: Mapping[str, Any],
    server: LocalServer,
    tables: Sequence[str],
    start: Position | str | None = None,
    stop: Position | str | None = None,
) -> Iterator[str]:
    """The lines of a format that the source's binlog files give."""
    for lines in expected_transactions(options, server, tables, start, stop):
        yield from lines


def expected_transactions(
    options: Mapping[str, Any],
    server: LocalServer,
    tables: Sequence[str],
    start: Position | str | None = None,
    stop: Position | str | None = None,
) -> Iterator[Iterator[str]]:
    """The same, by transaction."""
    line_format = make_format(options.get("format", "native"), options.get("format_options", {}))
    paths = [server.binlog_path(name) for name in server.binlog_files()]
    reader = open_binlog(paths, tables=list(tables), start=start, stop=stop)
    for transaction in reader.transactions():
        yield line_format.lines(transaction)


def compare_lines(
    got: list[str],
    options: Mapping[str, Any],
    server: LocalServer,
    tables: Sequence[str],
    start: Position | str | None,
    stop: Position | str | None,
    *,
    exactly: bool,
) -> Compared:
    """Compare lines in order with those that the source's binlog files give."""
    clean = without_clock(options.get("format", "native"))
    expected = [clean(line) for line in expected_lines(options, server, tables, start, stop)]
    found = [clean(line) for line in got]
    if exactly:
        for at, (mine, theirs) in enumerate(zip(found, expected, strict=False)):
            assert mine == theirs, f"line {at}: {mine[:500]} instead of {theirs[:500]}"
        assert len(found) == len(expected), f"{len(found)} lines instead of {len(expected)}"
    else:
        assert_repeats(found, expected)
    return Compared(len(tables), len(expected), len(found) - len(expected))


def without_clock(line_format: str) -> Callable[[str], str]:
    """Makes what takes out of a line the time at which it was made."""
    names = {"debezium": ("ts_ms", "ts_us", "ts_ns"), "canal": ("ts",)}.get(line_format)
    if names is None:
        return lambda line: line

    def clean(line: str) -> str:
        value = json.loads(line)
        for name in names:
            value.pop(name, None)
        return json.dumps(value)

    return clean


# Parquet.


def parquet_changes(directory: Path) -> list[tuple[Any, ...]]:
    """All committed rows of the sink ``parquet``: published, and those that wait in its journal.

    Each is the table's name, then its place, change type and values, as Arrow gives them.
    """
    return batch_rows(parquet_batches(directory))


def parquet_batches(directory: Path) -> list[pa.RecordBatch]:
    """All committed batches of the sink ``parquet``."""
    checkpoint = directory / "parquet.checkpoint.json"
    if not checkpoint.exists():
        return []
    saved = json.loads(checkpoint.read_text())["with"]
    batches = []
    for path in sorted((directory / "_segments").glob("*.json")):
        if int(path.stem) < saved["segment"]:
            for file in json.loads(path.read_text())["files"]:
                table = pq.read_table(directory / file["path"], partitioning=None)
                assert table.num_rows == file["rows"]
                batches += table.to_batches()
    if saved["length"]:
        journal = directory / "_open" / f"{saved['segment']:08d}.journal"
        batches += read_journal(journal, saved["length"])
    return batches


def batch_rows(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Rows of batches of any tables, in the order of the binlog."""
    found = []
    for batch in batches:
        name = batch.schema.metadata[b"database"] + b"." + batch.schema.metadata[b"table"]
        for row in batch.to_pylist():
            position = (row["_commit_version"], row["_event_index"], row.get("_row_index", -1))
            # An update's image before stands before the one after it.
            before = row.get("_change_type") != "update_postimage"
            found.append((position, not before, name.decode(), tuple(map(repr, row.values()))))
    return sorted(found, key=lambda one: one[:3])


def _compare_parquet(
    options: Mapping[str, Any],
    server: LocalServer,
    tables: Sequence[str],
    start: Position | str | None,
    stop: Position | str | None,
) -> Compared:
    paths = [server.binlog_path(name) for name in server.binlog_files()]
    reader = open_binlog(paths, tables=list(tables), start=start, stop=stop)
    expected = batch_rows(reader.batches())
    got = [row for row in parquet_changes(Path(options["path"])) if row[2] != "._schema_changes"]
    for at, (mine, theirs) in enumerate(zip(got, expected, strict=False)):
        assert mine == theirs, f"row {at}: {mine} instead of {theirs}"
    assert len(got) == len(expected), f"{len(got)} rows instead of {len(expected)}"
    return Compared(len(tables), len(expected))


# Mirrors.


def _compare_mirror(
    read: Callable[[Mapping[str, Any], str, str], list[tuple[Any, ...]] | None],
    options: Mapping[str, Any],
    server: LocalServer,
    patterns: Sequence[str],
) -> Compared:
    count = rows = 0
    for database, table in source_tables(server):
        if not any(fnmatchcase(f"{database}.{table}", pattern) for pattern in patterns):
            continue
        expected = sorted(source_rows(server, database, table), key=repr)
        found = read(options, database, table)
        assert found is not None or not expected, f"{database}.{table} is not in the mirror"
        got = sorted(found or (), key=repr)
        if got != expected:
            # By their texts: values that differ by type only are not the same, and some cannot be hashed.
            mine, theirs = Counter(map(repr, got)), Counter(map(repr, expected))
            missing, extra = (
                list((a - b).elements())[:5] for a, b in ((theirs, mine), (mine, theirs))
            )
            raise AssertionError(
                f"{database}.{table}: {len(got)} rows, the source has {len(expected)}; "
                f"missing {missing}; too many {extra}"
            )
        count, rows = count + 1, rows + len(expected)
    assert count, f"no table of the source matches {patterns}"
    return Compared(count, rows)


def stored_name(connection: sqlite3.Connection, database: str, table: str) -> str:
    """What a SQLite mirror calls a table: what it says itself, or the plain name."""
    found = connection.execute(
        "SELECT json_extract(definition, '$.stored_as') FROM _replica_client_tables "
        "WHERE database = ? AND name = ?",
        (database, table),
    ).fetchone()
    return str(found[0]) if found and found[0] else sqlite_names().name((database, table))


def _sqlite_rows(
    options: Mapping[str, Any], database: str, table: str
) -> list[tuple[Any, ...]] | None:
    connection = sqlite3.connect(options["path"])
    try:
        name = sqlite_name(stored_name(connection, database, table))
        return connection.execute(f"SELECT * FROM {name}").fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
    finally:
        connection.close()


def _mysql_rows(
    options: Mapping[str, Any], database: str, table: str
) -> list[tuple[Any, ...]] | None:
    target = parse_url(options["url"])
    mirror = Server(
        Address(
            "mirror", "", "0.0.0", target.host, target.port, root_password=target.password or ""
        )
    )
    try:
        mirrored = options.get("database_prefix", "") + database
        if (mirrored, table) not in source_tables(mirror):
            return None
        return source_rows(mirror, mirrored, table)
    finally:
        mirror.disconnect()


def _postgres_rows(
    options: Mapping[str, Any], database: str, table: str
) -> list[tuple[Any, ...]] | None:
    import psycopg

    name = psycopg.sql.Identifier(options.get("schema_prefix", "") + database, table)
    with psycopg.connect(options["url"]) as connection:
        # A column that was added stands at the end, wherever the source has it.
        found = connection.execute(
            "SELECT definition FROM _replica_client.tables WHERE database = %s AND name = %s",
            (database, table),
        ).fetchone()
        if found is None:
            return None
        columns = [psycopg.sql.Identifier(one["name"]) for one in json.loads(found[0])["columns"]]
        try:
            query = psycopg.sql.SQL("SELECT {} FROM {}").format(
                psycopg.sql.SQL(", ").join(columns), name
            )
            return list(connection.execute(query).fetchall())
        except psycopg.errors.UndefinedTable:
            return None


def _duckdb_rows(
    options: Mapping[str, Any], database: str, table: str
) -> list[tuple[Any, ...]] | None:
    import duckdb

    names = ".".join('"' + name.replace('"', '""') + '"' for name in (database, table))
    with duckdb.connect(options["path"], read_only=True) as connection:
        try:
            kinds = [row[1] for row in connection.execute(f"DESCRIBE {names}").fetchall()]
            rows = connection.execute(f"FROM {names}").fetchall()
        except duckdb.CatalogException:
            return None
    return [
        tuple(
            shortest_float(value) if kind == "FLOAT" and value is not None else value
            for value, kind in zip(row, kinds, strict=True)
        )
        for row in rows
    ]


def _clickhouse_rows(
    options: Mapping[str, Any], database: str, table: str
) -> list[tuple[Any, ...]] | None:
    """By its own ``SELECT … FINAL``."""
    import httpx

    def asked(sql: str) -> list[Any]:
        body = (
            f"{sql} FORMAT JSONCompactEachRow SETTINGS output_format_json_quote_64bit_integers = 0"
        )
        answer = httpx.post(options["url"], content=body.encode(), timeout=120)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.content.splitlines()]

    def text(value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def name(value: str) -> str:
        return "`" + value.replace("\\", "\\\\").replace("`", "\\`") + "`"

    prefix = options.get("database_prefix", "")
    columns = asked(
        f"SELECT name, type FROM system.columns WHERE database = {text(prefix + database)} "
        f"AND table = {text(table)} AND default_kind = '' ORDER BY position"
    )
    if not columns:
        return None
    # A String may be text or bytes: which is in the definition that the mirror keeps.
    ((definition,),) = asked(
        f"SELECT definition FROM {name(prefix + '_replica_client')}.tables "
        f"WHERE database = {text(database)} AND name = {text(table)}"
    )
    kinds = [column["kind"] for column in json.loads(definition)["columns"]]
    shown = []
    for (column, kind), source_kind in zip(columns, kinds, strict=True):
        one, scale = name(column), kind.removeprefix("Nullable(").rstrip(")").rpartition(", ")[2]
        if source_kind.endswith(("blob", "binary")) or source_kind in GEOMETRIES:
            one = f"hex({one})"
        elif "Decimal" in kind:
            one = f"toDecimalString({one}, {scale})"
        elif "Int" not in kind:
            one = f"toString({one})"
        shown.append(one)
    rows = asked(f"SELECT {', '.join(shown)} FROM {name(prefix + database)}.{name(table)} FINAL")

    def stored(value: Any, kind: str) -> Any:
        if value is None:
            return None
        if kind.endswith(("blob", "binary")) or kind in GEOMETRIES:
            return bytes.fromhex(value)
        if kind in ("float", "double"):
            return float(value)
        return str(value) if isinstance(value, int) and value >= 1 << 63 else value

    return [tuple(map(stored, row, kinds)) for row in rows]


MIRRORS = {
    "sqlite": _sqlite_rows,
    "mysql": _mysql_rows,
    "postgres": _postgres_rows,
    "duckdb": _duckdb_rows,
    "clickhouse": _clickhouse_rows,
}
