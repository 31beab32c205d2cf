"""What the programs replicate: a table of usual types, filled, updated and partly deleted."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.servers.local import LocalServer

TABLE = """CREATE TABLE shop.orders (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY, customer INT NOT NULL, state ENUM('new','paid','sent') NOT NULL,
  priority TINYINT NULL, total DECIMAL(12,2) NOT NULL, placed DATETIME(6) NOT NULL, changed TIMESTAMP NULL,
  due DATE NULL, email VARCHAR(64) NULL, weight DOUBLE NULL, note TEXT NULL) CHARACTER SET utf8mb4"""


@dataclass(frozen=True)
class Shop:
    """A source with the table; behind :meth:`filled` with its changes in one binlog file.

    Attributes:
        server: which one.
        inserted: rows that the workload inserts.
        step: rows in a statement.
        file: the binlog file.
        position: where it ends.
        rows: that the changes have.
    """

    server: LocalServer
    inserted: int
    step: int
    file: str = ""
    position: int = 0
    rows: int = 0

    @property
    def settings(self) -> dict[str, object]:
        """Where the source is, and a user who may everything."""
        address = self.server.address
        return {"host": address.host, "port": address.port, "user": "dep", "password": "dep"}

    def filled(self) -> Shop:
        """Insert rows, update half and delete a quarter of them."""
        server, rows, step, rng = self.server, self.inserted, self.step, random.Random(3)
        for first in range(1, rows + 1, step):
            values = ",".join(_row(rng, number) for number in range(first, first + step))
            server.execute(f"INSERT INTO shop.orders VALUES {values}")
        for first in range(1, rows // 2 + 1, step):
            between = f"id BETWEEN {first} AND {first + step - 1}"
            change = "SET state = 'sent', total = total + 1"
            server.execute(f"UPDATE shop.orders {change} WHERE {between}")
        for first in range(1, rows // 4 + 1, step):
            between = f"id BETWEEN {first} AND {first + step - 1}"
            server.execute(f"DELETE FROM shop.orders WHERE {between}")
        names = server.query("SHOW BINARY LOGS")
        file, position = names[-1][:2]
        changes = rows + rows // 2 + rows // 4
        return replace(self, file=str(file), position=int(position), rows=changes)

    @property
    def left(self) -> int:
        """Rows that the table has in the end."""
        return self.inserted - self.inserted // 4


def prepare(server: LocalServer) -> None:
    """An empty table, and a binlog file that begins behind it."""
    server.execute("DROP DATABASE IF EXISTS shop")
    server.execute("CREATE DATABASE shop")
    server.execute(TABLE)
    server.rotate()


def make_user(server: LocalServer) -> None:
    """A user for the programs."""
    server.execute("CREATE USER 'dep'@'%' IDENTIFIED BY 'dep'")
    server.execute("GRANT ALL ON *.* TO 'dep'@'%'")


def _row(rng: random.Random, number: int) -> str:
    seconds = f"{rng.randrange(60):02d}.{rng.randrange(10**6):06d}"
    return (
        f"({number}, {rng.randrange(10**6)}, '{rng.choice(('new', 'paid', 'sent'))}',"
        f" {rng.choice(('NULL', '1', '-5'))}, {rng.randrange(9999)}.{rng.randrange(100):02d},"
        f" '2026-01-{rng.randint(1, 28):02d} 10:00:{seconds}', '2026-02-{rng.randint(1, 28):02d} 01:02:03',"
        f" '2025-12-{rng.randint(1, 28):02d}', 'm{number}@example.com', {rng.choice(('NULL', '1.5'))},"
        f" 'note {number} é')"
    )
