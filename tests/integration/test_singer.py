"""The Singer tap: Singer's own suite, and a target that has what the source has."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.table_copies import COLUMNS, TABLES, write
from tests.servers.local import LocalServer, LocalServers, ServerUnavailableError
from tests.servers.plugin import unavailable

singer_sdk = pytest.importorskip("singer_sdk", reason="pip install '.[singer]'")

OPTIONS = ("binlog-row-metadata=FULL", "gtid-mode=ON", "enforce-gtid-consistency=ON")
Tables = dict[str, dict[tuple[Any, ...], dict[str, Any]]]


@pytest.fixture(scope="module")
def source(local_servers: LocalServers) -> Iterator[LocalServer]:
    try:
        made = local_servers.fresh("mysql-9.7", OPTIONS)
    except ServerUnavailableError as error:
        unavailable(error)
    yield made
    local_servers.close_fresh(made)


class Target:
    """Applies messages as targets do."""

    def __init__(self) -> None:
        self.tables: Tables = {}
        self.state: dict[str, Any] = {}
        self._keys: dict[str, list[str]] = {}
        self._versions: dict[str, int] = {}

    def apply(self, line: str) -> None:
        message = json.loads(line)
        kind, stream = message["type"], message.get("stream", "")
        if kind == "STATE":
            self.state = message["value"]
        elif kind == "SCHEMA":
            self._keys[stream] = message["key_properties"]
            self.tables.setdefault(stream, {})
        elif kind == "ACTIVATE_VERSION":
            if self._versions.get(stream) != message["version"]:
                self.tables[stream].clear()
            self._versions[stream] = message["version"]
        elif kind == "RECORD":
            assert message["version"] == self._versions[stream]
            row = message["record"]
            key = tuple(row[name] for name in self._keys[stream])
            if row.get("_sdc_deleted_at"):
                self.tables[stream].pop(key, None)
            else:
                self.tables[stream][key] = row


def run_tap(config: Path, target: Target, directory: Path, lines: int | None = None) -> None:
    """Run the tap into the target; killed after so many lines."""
    state = directory / "state.json"
    state.write_text(json.dumps(target.state))
    program = "from replica_client.compat.singer_tap import main; main()"
    words = [sys.executable, "-c", program, "--config", config, "--state", state]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tap:
        assert tap.stdout is not None and tap.stderr is not None
        for number, line in enumerate(tap.stdout):
            target.apply(line)
            if number == lines:
                tap.kill()
                return
        assert tap.wait() == 0, tap.stderr.read()[-3000:]


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return value if isinstance(value, (int, float, str)) or value is None else str(value)


def assert_equal(source: LocalServer, target: Target, table: str, names: list[str]) -> None:
    shown = [f"CAST({n} AS CHAR)" if n == "took" else n for n in names]
    with source.connected(init_command="SET time_zone = '+00:00'") as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(shown)} FROM shop.{table}")
            wanted = sorted(repr(tuple(map(plain, row))) for row in cursor.fetchall())
    found = []
    for row in target.tables[f"shop-{table}"].values():
        values = []
        for name in names:
            value = row[name]
            if name == "took" and value:
                value = value[:-3]
            values.append(value)
        found.append(repr(tuple(values)))
    assert sorted(found) == wanted


@pytest.mark.timeout(600)
def test_tap(source: LocalServer, tmp_path: Path) -> None:
    source.execute("CREATE DATABASE shop")
    with source.connected(database="shop") as connection, connection.cursor() as cursor:
        for statement in TABLES:
            cursor.execute(statement)
        cursor.execute("CREATE TABLE keyless (n INT)")
    rng = random.Random(5)
    write(source, "shop", rng, 100)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"url": source.url("root"), "tables": ["shop.*"]}))
    target = Target()
    run_tap(config, target, tmp_path)
    assert "shop-keyless" not in target.tables
    for table, names in COLUMNS.items():
        assert_equal(source, target, table, names)
    write(source, "shop", rng, 60)
    run_tap(config, target, tmp_path, lines=20)
    write(source, "shop", rng, 20)
    run_tap(config, target, tmp_path)
    for table, names in COLUMNS.items():
        assert_equal(source, target, table, names)
    source.execute("ALTER TABLE shop.orders ADD COLUMN region VARCHAR(9) NOT NULL DEFAULT 'north'")
    source.execute("INSERT INTO shop.empty_one VALUES (1, 1)")
    write(source, "shop", rng, 20)
    for _ in range(2):  # an ALTER is met by one run, and the table copied by the next
        run_tap(config, target, tmp_path)
    assert_equal(source, target, "orders", [*COLUMNS["orders"], "region"])
    source.execute("TRUNCATE TABLE shop.empty_one")
    for _ in range(2):
        run_tap(config, target, tmp_path)
    assert_equal(source, target, "empty_one", COLUMNS["empty_one"])


@pytest.mark.timeout(600)
def test_singers_own_suite(source: LocalServer, tmp_path: Path) -> None:
    """The classes of ``singer_sdk.testing`` run in a pytest of their own, on a server's tables."""
    source.execute("CREATE DATABASE suite")
    with source.connected(database="suite") as connection, connection.cursor() as cursor:
        for statement in TABLES[:2]:
            # The suite takes no number with a fraction for one: it reads them as Decimal.
            cursor.execute(statement.replace("ratio DOUBLE", "ratio DECIMAL(30,20)"))
    write(source, "suite", random.Random(6), 20)
    test = tmp_path / "test_tap.py"
    test.write_text(
        "from singer_sdk.testing import get_tap_test_class\n"
        "from replica_client.compat.singer_tap import ReplicaClientTap\n"
        f"config = {{'url': {source.url('root')!r}, 'tables': ['suite.*']}}\n"
        "TestTap = get_tap_test_class(ReplicaClientTap, config=config)\n"
    )
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
    ]
    done = subprocess.run(
        [*words, str(test)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
