"""What `changes --json` tells of JSON null and SQL NULL is what the server says of each row."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
    done = subprocess.run(
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
