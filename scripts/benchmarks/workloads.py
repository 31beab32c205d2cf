"""The workloads, as statements for a server."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WORDS = ("Grüße", "naïve", "日本語", "smörgåsbord", "plain", "Ελλάδα", "coffee", "Москва", "tea")


@dataclass(frozen=True)
class Workload:
    """What it is, and what writes it; `write` returns the number of row changes."""

    name: str
    about: str
    write: Callable[[Any, float], int]
    server: str = "mysql-9.7"


def _run(connection: Any, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _in_steps(
    connection: Any, table: str, statement: str, first: int, last: int, step: int
) -> None:
    for at in range(first, last + 1, step):
        _run(connection, f"{statement} WHERE id BETWEEN {at} AND {min(at + step - 1, last)}")
        connection.commit()


def _sysbench(connection: Any, scale: float) -> int:
    rng = random.Random(1)
    rows, updates, deletes = int(300_000 * scale), int(180_000 * scale), int(120_000 * scale)
    _run(
        connection,
        "CREATE TABLE sbtest1 (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, "
        "pad CHAR(60) NOT NULL) CHARACTER SET utf8mb4",
    )
    for at in range(1, rows + 1, 1000):
        values = []
        for number in range(at, min(at + 1000, rows + 1)):
            text = "-".join(f"{rng.randrange(10**11):011d}" for _ in range(10))
            values.append(f"({number},{rng.randrange(10**6)},'{text}','{text[:59]}')")
        _run(connection, "INSERT INTO sbtest1 VALUES " + ",".join(values))
        connection.commit()
    _in_steps(connection, "sbtest1", "UPDATE sbtest1 SET k = k + 1", 1, updates, 1000)
    _in_steps(connection, "sbtest1", "DELETE FROM sbtest1", 1, deletes, 1000)
    return rows + updates + deletes


_ORDERS = """CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY, customer INT NOT NULL,
  state ENUM('new','paid','packed','sent','back') NOT NULL, priority TINYINT NULL,
  quantity SMALLINT UNSIGNED NULL, total DECIMAL(12,2) NOT NULL, rate DECIMAL(12,4) NULL,
  placed DATETIME(6) NOT NULL, changed TIMESTAMP NULL, due DATE NULL, currency CHAR(3) NOT NULL,
  email VARCHAR(64) NULL, address VARCHAR(255) NULL, flags SET('gift','express','fragile','b2b') NULL,
  weight DOUBLE NULL, score FLOAT NULL, document JSON NULL, note TEXT NULL, bits BIT(8) NULL,
  token BLOB NULL) CHARACTER SET utf8mb4"""


def _order(rng: random.Random, number: int) -> str:
    def maybe(text: str, chance: float = 0.2) -> str:
        return "NULL" if rng.random() < chance else text

    document = {
        "items": [
            {
                "sku": f"S-{rng.randrange(10**5)}",
                "n": rng.randint(1, 9),
                "price": rng.randint(1, 9999) / 100,
            }
            for _ in range(rng.randint(1, 3))
        ],
        "channel": rng.choice(WORDS),
        "paid": rng.random() < 0.5,
        "ref": None,
    }
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 12)))
    return (
        f"({number},{rng.randrange(10**6)},{rng.randint(1, 5)},{maybe(str(rng.randint(-9, 9)))},"
        f"{maybe(str(rng.randrange(60000)))},{rng.randrange(10**9) / 100},{maybe(str(rng.randrange(10**9) / 10000))},"
        f"'2026-0{rng.randint(1, 9)}-1{rng.randint(0, 9)} 12:34:56.{rng.randrange(10**6):06d}',"
        f"{maybe(repr(f'2026-03-1{rng.randint(0, 9)} 01:02:03'))},{maybe(repr(f'2026-05-2{rng.randint(0, 9)}'))},"
        f"'EUR',{maybe(repr(f'user{rng.randrange(10**6)}@example.com'))},{maybe(repr(text))},"
        f"{maybe(str(rng.randrange(16)))},{maybe(str(rng.random() * 100))},{maybe(str(rng.randrange(1000) / 8))},"
        f"{maybe(repr(json.dumps(document, ensure_ascii=False)), 0.1)},{maybe(repr(text * 2), 0.3)},"
        f"{maybe(str(rng.randrange(256)))},{maybe(f'0x{rng.randbytes(24).hex()}')})"
    )


def _orders(connection: Any, scale: float) -> int:
    rng = random.Random(2)
    rows, updates, deletes = int(150_000 * scale), int(75_000 * scale), int(60_000 * scale)
    _run(connection, _ORDERS)
    for at in range(1, rows + 1, 500):
        values = [_order(rng, number) for number in range(at, min(at + 500, rows + 1))]
        _run(connection, "INSERT INTO orders VALUES " + ",".join(values))
        connection.commit()
    _in_steps(connection, "orders", "UPDATE orders SET customer = customer + 1", 1, updates, 500)
    _in_steps(connection, "orders", "DELETE FROM orders", 1, deletes, 500)
    return rows + updates + deletes


def _small(connection: Any, scale: float) -> int:
    count = int(100_000 * scale)
    _run(
        connection,
        "CREATE TABLE events (id INT NOT NULL PRIMARY KEY, kind TINYINT NOT NULL, at DATETIME NOT NULL,"
        " who VARCHAR(20) NOT NULL, amount DECIMAL(8,2) NOT NULL)",
        "CREATE PROCEDURE fill_events(n INT) BEGIN DECLARE i INT DEFAULT 1; WHILE i <= n DO "
        "INSERT INTO events VALUES (i, i % 7, '2026-01-02 03:04:05', CONCAT('user', i % 1000), i / 10);"
        " SET i = i + 1; END WHILE; END",
    )
    connection.commit()
    connection.autocommit(True)
    _run(connection, f"CALL fill_events({count})")
    connection.autocommit(False)
    return count


def _many_tables(connection: Any, scale: float) -> int:
    tables, rounds = max(int(1000 * scale), 10), 40
    for number in range(tables):
        _run(
            connection,
            f"CREATE TABLE t{number} (id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(30))",
        )
    for step in range(rounds):
        for number in range(tables):
            values = ",".join(f"({step * 5 + i},{i},'row {i}')" for i in range(5))
            _run(connection, f"INSERT INTO t{number} VALUES {values}")
            if number % 50 == 49:
                connection.commit()
        connection.commit()
    return tables * rounds * 5


def _compressed(connection: Any, scale: float) -> int:
    _run(connection, "SET SESSION binlog_transaction_compression = ON")
    return _sysbench(connection, scale)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("a", "sysbench-like rows: int, int, char(120), char(60)", _sysbench),
        Workload("b", "orders: 20 columns with JSON, decimals, text", _orders),
        Workload("c", "one-row transactions", _small),
        Workload("d", "1,000 tables interleaved", _many_tables),
        Workload("e", "the rows of a, compressed transactions", _compressed),
        Workload("f", "the rows of a, MariaDB", _sysbench, "mariadb-11.8"),
    )
}
