"""Tables that snapshots are compared with the stream on: one of every type, and one for every kind of key."""

from __future__ import annotations

import random

from tests.integration.debezium_changes import KINDS, value
from tests.servers.local import LocalServer

KEYS = (
    "id BIGINT UNSIGNED",
    "id VARCHAR(20) COLLATE utf8mb4_bin",
    "id VARBINARY(20)",
    "id BINARY(8)",
    "id DECIMAL(10,2)",
    "id DATETIME(3)",
    "id TIMESTAMP(6)",
    "id DATE",
    "id YEAR",
    "id ENUM('1','2','3')",
    "id TIME(2)",
    "id FLOAT",
    "id CHAR(5)",
)
_LITERALS = {
    "DATETIME": "'2026-01-0{} 01:02:03.04'",
    "TIMESTAMP": "'2026-01-0{} 01:02:03.04'",
    "DATE": "'2026-01-0{}'",
    "YEAR": "200{}",
    "TIME": "'-1{}:02:03.04'",
}


def make_shown_tables(source: LocalServer, *, is_mariadb: bool) -> None:
    """A table of every type, and one for every kind of key."""
    chance = random.Random(7)
    source.execute("CREATE DATABASE shown CHARACTER SET utf8mb4")
    kinds = [kind for kind in KINDS if not (is_mariadb and kind.makes == "geometry")]
    columns = ", ".join(f"c{at} {kind.type}" for at, kind in enumerate(kinds))
    source.execute(f"CREATE TABLE shown.types (id INT PRIMARY KEY, n INT, {columns})")
    for at in range(40):
        values = ", ".join(value(kind, chance, day_only=False) for kind in kinds)
        if is_mariadb:
            values = values.replace("TO_VECTOR(", "VEC_FromText(")
        source.execute(f"INSERT INTO shown.types VALUES ({at}, 0, {values})")
    source.execute("CREATE TABLE shown.documents (id INT PRIMARY KEY, n INT, d JSON)")
    source.execute("INSERT INTO shown.documents VALUES (1, 0, 'null'), (2, 0, NULL), (3, 0, '[]')")
    for at, key in enumerate(KEYS):
        source.execute(f"CREATE TABLE shown.key{at} ({key}, n INT, PRIMARY KEY (id))")
        words = key.split()[1].partition("(")[0]
        for number in (1, 2, 3):
            literal = _LITERALS.get(words, "'{}'").format(number)
            source.execute(f"INSERT INTO shown.key{at} VALUES ({literal}, 0)")
