"""JSON null and SQL NULL are what the server says of each row: in lines, files, mirrors, lakes, archives and SQL."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

import replica_client as rc
from replica_client.sinks.formats.line_format import make_format
from tests import processes
from tests.integration import truth_ways
from tests.integration.truth_ways import Written, copied_files

VALUES = ("NULL", "'null'", "'\"null\"'", "'[null]'", "'{\"a\": null}'", "'1'")


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_lines_tell_what_the_server_tells(fresh_server, metadata: str) -> None:
    server = fresh_server("mysql-9.7", [f"binlog-row-metadata={metadata}"])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, a JSON, n INT, b JSON)")
    rows = [f"({at}, {value}, NULL, 'null')" for at, value in enumerate(VALUES)]
    server.execute(f"INSERT INTO d.t VALUES {', '.join(rows)}")
    truth = {
        key: [["a", "b"], [a, b]]
        for key, a, b in server.query("SELECT id, a IS NULL, b IS NULL FROM d.t")
    }
    server.execute("UPDATE d.t SET a = IF(a IS NULL, 'null', NULL), b = NULL")
    done = processes.run(
        [sys.executable, "-m", "replica_client", "changes", server.url(), "--json",
         "--start", "earliest", "--stop-at-end", "--tables", "d.t"],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    inserted, updated = lines[: len(VALUES)], lines[len(VALUES) :]
    assert len(updated) == len(VALUES)
    for line in inserted:
        row, named = line["after"], line["json_null"]["after"]
        names, null = truth[row["id"]]
        for name, is_null in zip(names, null, strict=True):
            if row[name] is None:
                assert (name not in named) == bool(is_null)
        assert list(line["json_null"]) == ["after"]
    for before, line in zip(inserted, updated, strict=True):
        assert line["json_null"]["before"] == before["json_null"]["after"]
        was_null = truth[line["after"]["id"]][1][0]
        assert line["json_null"].get("after", []) == (["a"] if was_null else [])
    assert {line["after"]["n"] for line in lines} == {None}


def _of_changes(way: str) -> Callable[[Written], list[Any]]:
    return lambda written: [
        one.after["a"] for one in truth_ways.ORDERED[way](written) if one.table == "t"
    ]


def _of_mirror(kind: str) -> Callable[[Written], list[Any]]:
    def read(written: Written) -> list[Any]:
        [(_, rows)] = truth_ways.mirrored(written, kind, {0}, [])
        return [row["a"] for row in sorted(rows("t"), key=lambda row: int(row["id"]))]

    return read


def _of_lake(written: Written) -> list[Any]:
    found, left_out = truth_ways.lake(written)
    assert not left_out
    return [row["a"] for row in sorted(found["t"], key=lambda row: int(row["id"]))]


def _as_of(written: Written) -> list[Any]:
    rows = rc.open_archive(written.files).as_of("d.t", "latest").read_all().to_pylist()
    return [row["a"] for row in sorted(rows, key=lambda row: int(row["id"]))]


def _of_format(name: str, rows_of: Callable[[Any], list[Any]]) -> Callable[[Written], list[Any]]:
    def lines(written: Written) -> Iterator[Any]:
        line_format = make_format(name, {})
        for transaction in rc.open_binlog(written.files, tables="d.t").transactions():
            for line in line_format.lines(transaction):
                yield from rows_of(json.loads(line))

    return lambda written: list(lines(written))


def _debezium(line: Any) -> list[Any]:
    return [line["after"]["a"]] if line.get("op") == "c" else []


def _canal(line: Any) -> list[Any]:
    return [row["a"] for row in line["data"]] if line["type"] == "INSERT" else []


def _cloudevents(line: Any) -> list[Any]:
    data = line["data"]
    if data.get("kind") != "insert":
        return []
    is_document = data["after"]["a"] is not None or "json_null" in data
    return [json.dumps(data["after"]["a"]) if is_document else None]


def _of_statements(command: str) -> Callable[[Written], list[Any]]:
    """Run the SQL of ``undo`` and ``redo`` on the source, where the rows are now."""

    def read(written: Written) -> list[Any]:
        words = [sys.executable, "-m", "replica_client", command, *map(str, written.files)]
        done = processes.run([*words, "--table", "d.t"], capture_output=True, check=True, text=True)
        assert "x'6e756c6c' AS JSON" in done.stdout
        assert "IS NULL" in done.stdout if command == "undo" else "(0, NULL" in done.stdout
        return _as_of(written)

    return read


SURFACES: dict[str, Callable[[Written], list[Any]]] = {
    **{
        way: _of_changes(way)
        for way in ("files", "batches", "scan_binlog", "parquet sink", "live, earliest")
    },
    **{f"{kind} mirror": _of_mirror(kind) for kind in ("sqlite", "duckdb")},
    "lake": _of_lake,
    "as of": _as_of,
    "debezium": _of_format("debezium", _debezium),
    "canal": _of_format("canal", _canal),
    "cloudevents": _of_format("cloudevents", _cloudevents),
    **{command: _of_statements(command) for command in ("undo", "redo")},
}


@pytest.fixture(scope="module")
def written(local_servers: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    server = local_servers.fresh("mysql-9.7", ["sync-binlog=0"])
    server.reset_binlog()
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.marker (id INT PRIMARY KEY)")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, a JSON)")
    rows = ", ".join(f"({at}, {value})" for at, value in enumerate(VALUES))
    server.execute(f"INSERT INTO d.t VALUES {rows}")
    server.execute("INSERT INTO d.marker VALUES (0)")
    directory = tmp_path_factory.mktemp("json")
    yield Written(
        server, "d", directory, copied_files(server, directory / "files"), random.Random(1)
    )
    local_servers.close_fresh(server)


@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_keeps_them_apart(written: Written, surface: str) -> None:
    expected = [one for (one,) in written.server.query("SELECT a FROM d.t ORDER BY id")]
    found = [
        None if one is None else str(getattr(one, "text", one))
        for one in SURFACES[surface](written)
    ]
    assert found == expected
