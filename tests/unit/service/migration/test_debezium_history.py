"""Debezium's schema history: which of its statements are before an offset, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import ConfigError
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.service.migration.debezium_history import read_history

A = "61d0fe8f-e924-11f1-ba66-02fc00000001"
B = "61d0fe8f-e924-11f1-ba66-02fc00000002"
FIRST = {"file": "b.000001", "pos": 100, "snapshot": True}


def record(position: dict[str, Any], ddl: str, server: str = "shop") -> dict[str, Any]:
    return {
        "source": {"server": server},
        "position": position,
        "ts_ms": 1,
        "databaseName": "shop",
        "ddl": ddl,
        "tableChanges": [],
    }


def written(directory: Path, records: list[dict[str, Any]]) -> str:
    path = directory / "history.dat"
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return str(path)


def columns(history: SchemaHistory) -> list[str]:
    table = history.table(("shop", "t"))
    assert isinstance(table, TableModel)
    return [one.name for one in table.columns]


@pytest.mark.parametrize(
    ("at", "start", "applied"),
    [
        # By file and offset: a statement comes right after its record's position.
        ({"file": "b.000001", "pos": 200}, "b.000001:300", True),
        ({"file": "b.000001", "pos": 200}, "b.000001:200", False),
        ({"file": "b.000001", "pos": 400}, "b.000001:300", False),
        ({"file": "b.999999", "pos": 400}, "b.1000000:4", True),
        ({"file": "b.1000000", "pos": 4}, "b.999999:400", False),
        # By GTID set; the source may have begun to use them after the record.
        ({"file": "b.000001", "pos": 200}, f"{A}:1-5", True),
        ({"file": "b.000001", "pos": 900, "gtids": f"{A}:1-4"}, f"{A}:1-5", True),
        ({"file": "b.000001", "pos": 200, "gtids": f"{A}:1-5"}, f"{A}:1-5", False),
        ({"file": "b.000001", "pos": 200, "gtids": f"{A}:1-5,\n{B}:1"}, f"{A}:1-5,{B}:1-2", True),
        ({"file": "b.000001", "pos": 200, "gtids": f"{A}:1-5,{B}:1"}, f"{A}:1-6", False),
        ({"file": "b.000001", "pos": 200, "gtids": "0-1-4"}, "0-1-5", True),
        ({"file": "b.000001", "pos": 200, "gtids": "0-1-5"}, "0-1-5", False),
        # Positions of the snapshot are the offset's own.
        ({"file": "b.000001", "pos": 300, "snapshot": True}, "b.000001:300", True),
        ({"pos": 9, "file": "b.9", "gtids": f"{A}:1-5", "snapshot": "INITIAL"}, f"{A}:1-5", True),
        ({"file": "b.000001", "pos": 300, "snapshot": False}, "b.000001:300", False),
        # The offset is of a time before GTIDs.
        ({"file": "b.000001", "pos": 200, "gtids": f"{A}:1-5"}, "b.000001:300", True),
    ],
)
def test_statements_before_the_offset(
    tmp_path: Path, at: dict[str, Any], start: str, applied: bool
) -> None:
    first = dict(FIRST)
    if "-" in start and "gtids" in at and ":" not in start:
        first["gtids"] = "0-1-1"
    found = read_history(
        written(
            tmp_path,
            [
                record(first, "CREATE DATABASE shop CHARSET latin1"),
                record(first, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(5))"),
                record(at, "ALTER TABLE t CHANGE a b VARCHAR(5)"),
                record(first, "ALTER TABLE t DROP COLUMN a", server="other"),
            ],
        ),
        "shop",
        start,
        is_mariadb=":" not in start,
    )
    assert columns(found) == ["id", "b" if applied else "a"]
    # It can be saved, and read back as schema_file.
    assert columns(SchemaHistory.from_json(found.to_json())) == columns(found)


def test_defaults_are_those_of_the_server_and_the_database(tmp_path: Path) -> None:
    place = written(
        tmp_path,
        [
            record(FIRST, "SET character_set_server=latin1, collation_server=latin1_swedish_ci"),
            record(FIRST, "CREATE DATABASE shop"),
            record(FIRST, "USE shop"),
            record(FIRST, "DROP TABLE IF EXISTS t"),
            record(FIRST, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(5))"),
        ],
    )
    table = read_history(place, "shop", "b.000001:300", is_mariadb=False).table(("shop", "t"))
    assert isinstance(table, TableModel)
    assert table.columns[1].charset == "latin1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "no record"),
        ("[]", "no record"),
        ("[" * 100_000, "no record"),
        ('{"source": {}}', "no record"),
        ('{"source": {}, "position": {}, "ddl": "CREATE TABLE t (a INT)"}', "no position"),
        ('{"source": {}, "position": {"file": "b.1", "pos": "x"}, "ddl": "x"}', "no position"),
        (
            '{"source": {}, "position": {"file": "b.1", "pos": 1, "gtids": "x"}, "ddl": "x"}',
            "other files|no table|cannot be compared",
        ),
        ('{"source": {}, "position": {"file": "mysql-bin.1", "pos": 1}, "ddl": "x"}', "compared"),
        ("", "no table"),
        (
            json.dumps(record({"file": "b.000001", "pos": 900}, "CREATE TABLE t (a INT)")),
            "no table",
        ),
        (json.dumps(record(FIRST, "CREATE TABLE t (a INT)", server="other")), "no table"),
    ],
)
def test_what_is_no_history_of_the_offset_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "history.dat"
    path.write_text(text + "\n")
    with pytest.raises(ConfigError, match=said):
        read_history(str(path), "shop", "b.000001:300", is_mariadb=False)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "history.dat"
    path.write_bytes(b"\xff\xfe\xfd\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_history(str(path), "shop", "b.000001:300", is_mariadb=False)
