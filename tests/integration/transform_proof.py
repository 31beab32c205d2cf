"""Plant secrets in rows and statements of a source, and look for them in everything that a daemon writes and shows.

Used by scripts/proofs/transforms (long) and by test_transforms.py (short).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import random
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pymysql

from tests.integration.daemon_process import DaemonProcess
from tests.otlp_collector import OtlpCollector
from tests.servers.local import LocalServer

DATABASE = "vault"
MARK = "zq7xSecretOfTheRow"
NUMBER = 90_817_263_544_536
"""What secret numbers begin with."""
KEY = "a key that nobody knows"
TRANSFORMS: list[dict[str, Any]] = [
    {
        "tables": [f"{DATABASE}.users", f"{DATABASE}.users_*"],
        "keep": ["id", "city", "amount"],
        "hash": ["ssn"],
        "mask": {"name": "***", "number": "", "doc": "", "born": ""},
        "truncate": {"bio": 2},
        "tokenise": ["phone"],
        "replace": {"note": [f"{MARK}[0-9]*", "#"]},
        "drop": ["picture"],
        "key": KEY,
    },
    {
        "tables": [f"{DATABASE}.accounts"],
        "keep": ["balance"],
        "hash": ["account"],
        "key": KEY,
        "rename": {"account": "account_hash"},
    },
    {"tables": [f"{DATABASE}.accounts"], "where": "balance >= 0", "route": "open.accounts"},
    {
        "tables": [f"{DATABASE}.part_*"],
        "keep": ["id"],
        "mask": {"name": "***"},
        "hash": ["ssn"],
        "key": KEY,
        "route": "open.parts",
        "shard": {"part": "{table}"},
        "soft_delete": "gone",
    },
    {
        "tables": [f"{DATABASE}.outbox"],
        "keep": ["id", "aggregate*", "payload"],
        "mask": {"name": "***"},
        "outbox": {"headers": {"name": "name"}},
    },
]
PARTS = 4
# The first bytes of what zlib compresses.
_PACKED = re.compile(rb"e[AFJN][A-Za-z0-9+/]{40,}={0,2}")
_COLUMNS = ("ssn", "name", "number", "doc", "bio", "phone", "note", "picture", "city", "amount")
_USERS = (
    "(id BIGINT AUTO_INCREMENT PRIMARY KEY, ssn VARCHAR(80), name VARCHAR(80), number BIGINT, doc JSON, "
    "bio LONGTEXT, phone VARCHAR(80), note TEXT, picture BLOB, city VARCHAR(30), amount DECIMAL(10,2), born DATE)"
)


@dataclass
class TransformReport:
    """What a proof saw.

    Attributes:
        rows: row changes of masked tables.
        statements: DDL.
        places: bytes that were searched, by what they are.
        compared: rows of mirrors that were compared with the source.
    """

    rows: int = 0
    statements: int = 0
    places: dict[str, int] = field(default_factory=dict)
    compared: int = 0


class Collector(OtlpCollector):
    """Keeps the bytes of what OTLP sends.

    Attributes:
        bodies: all that came, by its kind.
    """

    def __init__(self) -> None:
        self.bodies = {"/v1/metrics": bytearray(), "/v1/traces": bytearray()}
        super().__init__()

    def take(self, path: str, data: bytes) -> None:
        self.bodies[path] += data


def needles() -> list[bytes]:
    """The mark as it may stand somewhere: as it is, in hexadecimal digits, in base64 at each offset."""
    plain = MARK.encode()
    found = [plain, plain.hex().encode(), str(NUMBER).encode(), plain.lower(), plain.upper()]
    found += [MARK.encode("utf-16-le"), plain[::-1]]
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + plain)
        found.append(text[4 if shift else 0 : len(text) // 4 * 4 - 4])
    return found


class Planter:
    """Random DML and DDL whose values and texts hold the mark.

    Args:
        server: the source.
        seed: of the chance.
    """

    def __init__(self, server: LocalServer, seed: int, report: TransformReport) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self._report = report
        self._number = 0
        self._extra: list[str] = []

    def prepare(self) -> None:
        """The tables."""
        run = self._server.execute
        run(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        run(f"CREATE TABLE {DATABASE}.users {_USERS} COMMENT '{MARK}'")
        run(
            f"CREATE TABLE {DATABASE}.accounts (account VARCHAR(90) CHARACTER SET latin1 PRIMARY KEY, balance INT, "
            f"pin CHAR(40) DEFAULT '{MARK}')"
        )
        for number in range(PARTS):
            run(
                f"CREATE TABLE {DATABASE}.part_{number} (id INT PRIMARY KEY, ssn VARCHAR(80), name VARCHAR(80), "
                f"pin CHAR(60) DEFAULT '{MARK}')"
            )
        run(
            f"CREATE TABLE {DATABASE}.outbox (id INT AUTO_INCREMENT PRIMARY KEY, aggregatetype VARCHAR(20), "
            "aggregateid VARCHAR(20), payload JSON, name VARCHAR(80), pin VARCHAR(80))"
        )
        run(f"CREATE TABLE {DATABASE}.plain (id INT PRIMARY KEY, t VARCHAR(20))")

    def secret(self) -> str:
        """A text with the mark, that no other has."""
        self._number += 1
        return f"{MARK}{self._number}"

    def run(self, rows: int) -> None:
        """Change so many rows."""
        chance, goal = self._chance, self._report.rows + rows
        with self._server.connected(
            database=DATABASE, autocommit=False, read_timeout=600
        ) as connection:
            with connection.cursor() as cursor:
                while self._report.rows < goal:
                    for _ in range(chance.choice((1, 1, 3))):
                        self._change(cursor)
                    connection.rollback() if chance.random() < 0.05 else connection.commit()
                    if chance.random() < 0.15:
                        self._ddl(cursor)
                self.spoil(cursor)
                cursor.execute(f"REPLACE INTO plain VALUES (1, '{self._number}')")
                connection.commit()

    def _row(self) -> tuple[Any, ...]:
        chance, one = self._chance, self.secret()
        return (
            one,
            f"Müller {one}",
            NUMBER * 10_000 + self._number % 10_000,
            f'{{"{one}": ["{one}", {NUMBER}]}}',
            f"ab{one}" * chance.choice((1, 1, 200)),
            f"+49 {one}",
            f"a {one} b {one}",
            one.encode() + bytes(chance.randrange(3)),
            chance.choice(("Köln", "Rome", None)),
            chance.randrange(10**6) / 100,
        )

    def _change(self, cursor: Any) -> None:
        chance, report = self._chance, self._report
        what, marks = chance.random(), ", ".join(["%s"] * len(_COLUMNS))
        if what < 0.5:
            rows = [self._row() for _ in range(chance.choice((1, 5, 40)))]
            names = ", ".join(_COLUMNS)
            cursor.executemany(f"INSERT INTO users ({names}) VALUES ({marks})", rows)
            report.rows += len(rows)
        elif what < 0.7:
            column = chance.choice(_COLUMNS[:2] + _COLUMNS[5:7])
            low = chance.randrange(max(report.rows, 1))
            report.rows += cursor.execute(
                f"UPDATE users SET {column} = %s, amount = amount + 1 WHERE id BETWEEN %s AND %s",
                (self.secret(), low, low + 20),
            )
        elif what < 0.75:
            low = chance.randrange(max(report.rows, 1))
            report.rows += cursor.execute(
                "DELETE FROM users WHERE id BETWEEN %s AND %s", (low, low + 3)
            )
        elif what < 0.85:
            self._part(cursor)
        elif what < 0.92:
            report.rows += cursor.execute(
                "INSERT INTO accounts (account, balance, pin) VALUES (%s, %s, %s)",
                (self.secret(), chance.randrange(-100, 100), self.secret()),
            )
        else:
            report.rows += cursor.execute(
                "UPDATE accounts SET balance = balance - %s, pin = %s ORDER BY balance LIMIT 5",
                (chance.randrange(-50, 50), self.secret()),
            )

    def _part(self, cursor: Any) -> None:
        """Rows of shards with the same keys, and messages."""
        chance, report = self._chance, self._report
        name, what = f"part_{chance.randrange(PARTS)}", chance.random()
        if what < 0.5:
            rows = [
                (chance.randrange(200), self.secret(), self.secret(), self.secret())
                for _ in range(chance.choice((1, 10)))
            ]
            sql = f"REPLACE INTO {name} (id, ssn, name, pin) VALUES (%s, %s, %s, %s)"
            report.rows += cursor.executemany(sql, rows) or 0
        elif what < 0.8:
            low = chance.randrange(200)
            report.rows += cursor.execute(
                f"DELETE FROM {name} WHERE id BETWEEN %s AND %s", (low, low + 5)
            )
        else:
            sql = "INSERT INTO outbox VALUES (DEFAULT, 'a', '1', '{\"b\": 2}', %s, %s)"
            report.rows += cursor.execute(sql, (self.secret(), self.secret()))
            if chance.random() < 0.1:
                self.spoil(cursor)
            cursor.execute("DELETE FROM outbox WHERE pin LIKE %s", (f"%{MARK}%",))

    def spoil(self, cursor: Any) -> None:
        """Change a row of the outbox: that is no message, and goes to the dead letters."""
        sql = "INSERT INTO outbox VALUES (DEFAULT, 'a', '1', '{\"b\": 2}', %s, %s)"
        self._report.rows += cursor.execute(sql, (self.secret(), self.secret()))
        sql = "UPDATE outbox SET name = %s LIMIT 1"
        self._report.rows += cursor.execute(sql, (self.secret(),))

    def _ddl(self, cursor: Any) -> None:
        chance, one = self._chance, self.secret()
        self._report.statements += 1
        what = chance.randrange(9)
        if what == 0 and len(self._extra) < 4:
            name = f"added{self._number}"
            kind = chance.choice(("VARCHAR(80)", "VARCHAR(99) CHARACTER SET latin1"))
            cursor.execute(
                f"ALTER TABLE users ADD COLUMN {name} {kind} DEFAULT '{one}' COMMENT '{one}'"
            )
            self._extra.append(name)
        elif what == 1 and self._extra:
            name = self._extra.pop()
            cursor.execute(f"ALTER TABLE users DROP COLUMN {name} /* {one} */")
        elif what == 2:
            cursor.execute(f"ALTER TABLE users COMMENT '{one}'")
        elif what == 3:
            name = f"users_{self._number}"
            cursor.execute(f"CREATE TABLE {name} {_USERS} COMMENT '{one}'")
            cursor.execute(f"INSERT INTO {name} (ssn, note) VALUES ('{one}', '{one}')")
            cursor.execute(f"RENAME TABLE {name} TO {name}_b")
            if chance.random() < 0.5:
                cursor.execute(f"DROP TABLE {name}_b /* {one} */")
        elif what == 4:
            cursor.execute(f"CREATE OR REPLACE VIEW seen AS SELECT '{one}' AS one")
        elif what == 5:
            cursor.execute(f"ALTER TABLE users ALTER COLUMN name SET DEFAULT '{one}'")
        elif what == 6:
            cursor.execute("ALTER TABLE users RENAME COLUMN name TO named")
            cursor.execute(f"INSERT INTO users (named) VALUES ('{one}')")
            cursor.execute("ALTER TABLE users RENAME COLUMN named TO name")
        elif what == 7:
            # What a transform of all shards withholds, in one of them.
            name = f"part_{chance.randrange(PARTS)}"
            cursor.execute(f"ALTER TABLE {name} ADD COLUMN more CHAR(50) DEFAULT '{one}'")
            cursor.execute(f"ALTER TABLE {name} DROP COLUMN more /* {one} */")
        else:
            cursor.execute(f"CREATE TABLE IF NOT EXISTS plain2 (a INT) /* {self._number} */")


def daemon_of(source: LocalServer, directory: Path, collector: str) -> DaemonProcess:
    """A daemon with sinks of many kinds that does the transforms, and tells a collector at a URL."""
    files = [
        {
            "name": name,
            "type": "file",
            "path": str(directory / name),
            "format": name,
            "on_poison": "dead-letter",
        }
        for name in ("native", "debezium", "maxwell", "canal")
    ]
    return DaemonProcess(
        directory,
        {
            "url": source.url(),
            "tables": [f"{DATABASE}.*"],
            "start": f"{source.binlog_files()[0]}:4",
            "heartbeat": 1.0,
            "transform": TRANSFORMS,
            "record_losses": ["statement"],
        },
        [
            *files,
            {
                "name": "parquet",
                "type": "parquet",
                "path": str(directory / "parquet"),
                "roll_rows": 500,
            },
            {"name": "mirror", "type": "sqlite", "path": "mirror.db", "snapshot": True},
        ],
        {"otlp": collector, "otlp_seconds": 1.0},
    )


def prove_transforms(
    source: LocalServer,
    directory: Path,
    *,
    rows: int,
    seed: int,
    say: Callable[[str], None] = lambda text: None,
) -> TransformReport:
    """Plant, deliver, and search.

    Raises:
        AssertionError: a mark was found, or a row is not what the transforms make of it.
    """
    report = TransformReport()
    planter = Planter(source, seed, report)
    planter.prepare()
    planter.run(max(rows // 10, 1))
    collector = Collector()
    try:
        _deliver(source, directory, planter, rows, report, collector, say)
    finally:
        collector.close()
    for name, data in collector.bodies.items():
        assert data, f"{name}: nothing came"
        _search(report, f"OTLP {name}", bytes(data))
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name != "daemon.toml":
            _search(report, _kind(path, directory), path.read_bytes())
            if path.suffix == ".parquet":
                text = str(pq.read_table(path).to_pylist())
                _search(report, "parquet values", text.encode())
    with closing(sqlite3.connect(directory / "mirror.db")) as mirror:
        _search(report, "mirror values", "\n".join(mirror.iterdump()).encode())
    assert any(place.endswith("unpacked") for place in report.places), "no schema history was seen"
    return report


def _deliver(
    source: LocalServer,
    directory: Path,
    planter: Planter,
    rows: int,
    report: TransformReport,
    collector: Collector,
    say: Callable[[str], None],
) -> None:
    """Plant while a daemon delivers, and look at its pages."""
    with daemon_of(source, directory, collector.url) as daemon:
        for _ in range(10):
            planter.run((rows - rows // 10) // 10)
            say(f"{report.rows} row changes and {report.statements} statements planted")
        daemon.until_level(3600)
        say("all delivered")
        assert daemon.metric("replica_client_dead_letters_total", sink="native") > 0
        for page in ("/", "/status.json", "/metrics", "/healthz", "/readyz"):
            _search(report, f"page {page}", daemon.get(page)[1])
        # What cannot be told in rows, and what stops a route, is told without texts.
        _provoke(source, planter)
        daemon.until(lambda one: any(r["error"] for r in one.status()["routes"]), 60)
        for page in ("/", "/status.json", "/metrics", "/readyz"):
            _search(report, f"page {page} after an error", daemon.get(page)[1])
        _compare(source, directory, report)
        daemon.stop()


def _provoke(source: LocalServer, planter: Planter) -> None:
    """A table whose hidden columns a new name would show."""
    one = planter.secret()
    source.execute(f"CREATE TABLE {DATABASE}.users_last (ssn VARCHAR(99) PRIMARY KEY) /* {one} */")
    source.execute(f"INSERT INTO {DATABASE}.users_last VALUES ('{one}')")
    source.execute(f"RENAME TABLE {DATABASE}.users_last TO {DATABASE}.shown")
    source.execute(f"INSERT INTO {DATABASE}.shown VALUES ('{planter.secret()}')")


def _kind(path: Path, directory: Path) -> str:
    return path.relative_to(directory).parts[0]


def _search(report: TransformReport, place: str, data: bytes) -> None:
    for name, text in ((place, data), *((f"{place}, unpacked", one) for one in _unpacked(data))):
        report.places[name] = report.places.get(name, 0) + len(text)
        for needle in needles():
            at = text.find(needle)
            assert at < 0, f"{name}: {text[max(at - 300, 0) : at + 100]!r}"


def _unpacked(data: bytes) -> Iterator[bytes]:
    """What stands compressed in base64 among other bytes, as long parts of a schema history do."""
    for found in _PACKED.finditer(data):
        with contextlib.suppress(ValueError, zlib.error):
            yield zlib.decompress(base64.b64decode(found[0], validate=True))


def _hash(value: str | None) -> str | None:
    if value is None:
        return None
    return hmac.new(KEY.encode(), value.encode(), hashlib.sha256).hexdigest()


def _compare(source: LocalServer, directory: Path, report: TransformReport) -> None:
    """The mirror has what the transforms make of the source's rows."""
    with closing(sqlite3.connect(f"file:{directory / 'mirror.db'}?mode=ro", uri=True)) as mirror:
        shown = mirror.execute(
            f'SELECT id, ssn, name, bio, city FROM "{DATABASE}.users" ORDER BY id'
        ).fetchall()
        accounts = mirror.execute(
            'SELECT account_hash, balance FROM "open.accounts" ORDER BY 1'
        ).fetchall()
    rows = list(_rows(source, "SELECT id, ssn, bio, city FROM users ORDER BY id"))
    assert shown == [
        (number, _hash(ssn), "***", None if bio is None else bio[:2], city)
        for number, ssn, bio, city in rows
    ]
    found = _rows(source, "SELECT account, balance FROM accounts WHERE balance >= 0")
    assert accounts == sorted((_hash(account), balance) for account, balance in found)
    with closing(sqlite3.connect(f"file:{directory / 'mirror.db'}?mode=ro", uri=True)) as mirror:
        parts = mirror.execute(
            'SELECT part, id, ssn, name FROM "open.parts" WHERE NOT gone ORDER BY 1, 2'
        ).fetchall()
    assert parts == [
        (name, number, _hash(ssn), "***")
        for name in (f"part_{at}" for at in range(PARTS))
        for number, ssn in _rows(source, f"SELECT id, ssn FROM {name} ORDER BY id")
    ]
    report.compared = len(shown) + len(accounts) + len(parts)


def _rows(source: LocalServer, sql: str) -> Iterator[tuple[Any, ...]]:
    with source.connected(database=DATABASE) as connection:
        with connection.cursor(pymysql.cursors.Cursor) as cursor:
            cursor.execute(sql)
            yield from cursor.fetchall()
