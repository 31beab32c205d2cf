"""``replica-client sql``: what it prints, and what it says when it cannot."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import replica_client as rc
from replica_client.compat.duckdb_views import query
from replica_client.errors import ConfigError
from replica_client.rows.json_values import json_text, plain_text
from tests import processes
from tests.recipes.served import DATA, served

PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


def run(*words: object) -> tuple[int, str, str]:
    pytest.importorskip("duckdb", reason="pip install '.[duckdb]'")
    command = [sys.executable, "-m", "replica_client", "sql", *map(str, words)]
    done = processes.run(command, capture_output=True, text=True, env=PLAIN, check=False)
    assert done.returncode or not done.stderr, done.stderr  # what succeeds complains of nothing
    return done.returncode, done.stdout, done.stderr


def test_outputs() -> None:
    orders = [c for c in rc.open_binlog(DATA, tables="shop.orders").changes() if c.kind == "insert"]
    query = "SELECT id, total, placed, note FROM orders WHERE _change_type = 'insert' ORDER BY id"
    status, out, _ = run(query, DATA, "--json")
    assert status == 0
    wanted = [
        {
            "id": row["id"],
            "total": str(row["total"]),
            "placed": str(row["placed"]),
            "note": row["note"],
        }
        for row in (change.after for change in orders)
        if row is not None
    ]
    assert [json.loads(line) for line in out.splitlines()] == wanted
    rows = list(csv.DictReader(io.StringIO(run(query, DATA, "--csv")[1])))
    assert [{**row, "id": int(row["id"]), "note": row["note"] or None} for row in rows] == wanted
    lines = run(
        "SELECT _change_type AS kind, count(*) AS n FROM shop.orders GROUP BY 1 ORDER BY 2", DATA
    )
    assert lines[1].splitlines()[:2] == ["kind  n", "delete  3"]
    assert run("SELECT count(*) AS n FROM shop.orders", DATA)[1].splitlines()[0] == "n"


def test_sources_and_limits() -> None:
    count = "SELECT count(*) AS n FROM shop.orders"
    files = sorted(DATA.glob("shop-bin.0*"))
    whole = json.loads(run(count, DATA, "--json")[1])["n"]
    assert whole == json.loads(run(count, *files, "--json", "--threads", "2")[1])["n"]
    assert whole == json.loads(run(count, DATA / "shop-bin.*", "--json")[1])["n"]
    second = json.loads(run(count, DATA, "--json", "--since", f"{files[1].name}:4")[1])["n"]
    first = json.loads(run(count, DATA, "--json", "--until", f"{files[1].name}:4")[1])["n"]
    assert first and second and first + second == whole
    with served() as source:
        assert whole == json.loads(run(count, source.url, "--json")[1])["n"]


@pytest.mark.parametrize(
    "words, status, said",
    [
        (("SELEC 1", DATA), 2, "SQL: Parser Error"),
        (("SELECT nothing FROM shop.orders", DATA), 2, '"nothing" not found in FROM clause'),
        (("SELECT 1 FROM shop.nothing", DATA), 2, "no table shop.nothing has rows"),
        (("CREATE TABLE t (i INT)", DATA), 2, "it must be a statement that returns rows"),
        ((DATA, "SELEC 1"), 2, "is a source: give the SQL first, then the sources"),
        (("SELECT 1", DATA, "--json", "--csv"), 2, "give one of --json and --csv"),
        (("SELECT 1", "nowhere"), 2, "nowhere: no such file"),
    ],
)
def test_refusals(words: tuple[Any, ...], status: int, said: str) -> None:
    found, out, err = run(*words)
    assert (found, out) == (status, "")
    assert said in err.splitlines()[-1] and "Traceback" not in err


def test_a_fault_in_a_file_is_one_line(tmp_path: Any) -> None:
    data = bytearray((DATA / "shop-bin.000001").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "shop-bin.000001").write_bytes(data)
    status, out, err = run("SELECT count(*) FROM shop.orders", tmp_path)
    assert (status, out) == (1, "")
    assert re.search("shop-bin.000001.* CRC-32 is", err.splitlines()[-1]) and "Traceback" not in err


@pytest.mark.parametrize(
    "value, plain, in_json",
    [
        (Decimal("1E-10"), "0.0000000001", '"0.0000000001"'),
        (datetime(2026, 5, 1, 1, 2, 3, 4, UTC), "2026-05-01 01:02:03.000004", None),
        (datetime.fromisoformat("0999-05-01"), "0999-05-01 00:00:00.000000", None),
        (date(999, 5, 1), "0999-05-01", None),
        (timedelta(hours=-838, minutes=-59, seconds=-59), "-838:59:59.000000", None),
        (timedelta(microseconds=-1), "-00:00:00.000001", None),
        (b"\x00\xff", '{"$binary": "AP8="}', '{"$binary": "AP8="}'),
        ([("a", "b")], '{"a": "b"}', '{"a": "b"}'),
        ([1, None], "[1, null]", "[1, null]"),
        ({"wkb": b"\x00", "srid": 0}, '{"wkb": {"$binary": "AA=="}, "srid": 0}', None),
        (1.5, "1.5", "1.5"),
        (True, "true", "true"),
    ],
    ids=str,
)
def test_values(value: Any, plain: str, in_json: str | None) -> None:
    assert plain_text(value) == plain
    expected = json.dumps(plain) if in_json is None else in_json
    assert json_text(value) == (plain if isinstance(value, dict) else expected)


@pytest.mark.parametrize(
    ("database", "works"),
    [
        ("main", True),
        ("shop", True),
        ("temp", False),
        ("system", False),
        ("pg_catalog", False),
        ("information_schema", False),
        ("memory", False),
        ("PG_CATALOG", False),
        ("Temp", False),
        ("sqlite_master", True),
        ("replica_client_0", True),
        ("MAIN", True),
    ],
)
def test_databases_of_duckdb_itself(database: str, works: bool) -> None:
    rows = pa.table({"x": [1]})
    table: Any = SimpleNamespace(
        database=database, name="t", schema=rows.schema, select=lambda columns: rows.select(columns)
    )
    tables = {f"{database}.t": table}
    if works:
        assert query("SELECT x FROM t", tables).fetchall() == [(1,)]
        return
    with pytest.raises(ConfigError, match=f"^SQL: DuckDB has a database {database} of its own; "):
        query("SELECT x FROM t", tables)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (("shop", "t"), ("Shop", "t"), True),
        (("shop", "t"), ("shop", "T"), True),
        (("shop", "É"), ("shop", "é"), False),
    ],
)
def test_names_that_duckdb_takes_for_one(
    one: tuple[str, str], other: tuple[str, str], is_same: bool
) -> None:
    tables: dict[str, Any] = {}
    for number, (database, name) in enumerate((one, other)):
        rows = pa.table({"x": [number]})
        tables[f"{database}.{name}"] = SimpleNamespace(
            database=database, name=name, schema=rows.schema, select=rows.select
        )
    for number, (database, name) in enumerate((one, other)):
        sql = f'SELECT x FROM "{database}"."{name}"'
        if is_same:
            with pytest.raises(ConfigError, match="are one name to DuckDB"):
                query(sql, tables)
        else:
            assert query(sql, tables).fetchall() == [(number,)]
