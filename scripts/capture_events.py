"""Capture binlog events of real servers as golden vectors for tests/golden.

For each server that ``--servers`` (a JSON file: name -> connection) names, a small workload is run
in a database of its own, and the events that the server wrote for it are saved with what the
server's own SHOW BINLOG EVENTS says of them.

    python scripts/capture_events.py --servers servers.json --out tests/golden/events
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pymysql

DATABASE = "core_golden"
KEPT_PER_TYPE = 6
MAX_SIZE = 1500

COMMON: list[str | bytes] = [
    f"CREATE DATABASE {DATABASE}",
    f"USE {DATABASE}",
    "SET NAMES utf8mb4",
    "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, name VARCHAR(30) CHARACTER SET latin1,"
    " price DECIMAL(12,3), state ENUM('new','old') NOT NULL, tags SET('a','b','c'),"
    " made DATETIME(3), body TEXT, raw VARBINARY(9), bits BIT(12), ratio DOUBLE, tiny TINYINT)",
    "INSERT INTO t VALUES (1,'one',1.5,'new','a,b','2024-02-29 01:02:03.456','text',0x0001,5,.5,"
    "-1)",
    "UPDATE t SET name='eins', tags='c' WHERE id=1",
    "INSERT INTO t (id) VALUES (2),(3)",
    "DELETE FROM t WHERE id=2",
    "CREATE TABLE parted (id INT PRIMARY KEY, v INT) PARTITION BY HASH(id) PARTITIONS 3",
    "INSERT INTO parted VALUES (1,1),(5,2)",
    "UPDATE parted SET id=id+1 WHERE id=5",
    "DELETE FROM parted WHERE id=1",
    "CREATE TABLE keyed (a VARCHAR(20), b INT, c GEOMETRY, PRIMARY KEY (a(7), b))",
    "INSERT INTO keyed VALUES ('k', 1, ST_GeomFromText('POINT(1 2)'))",
    "SET time_zone='+03:00'",
    "CREATE TABLE zoned (at TIMESTAMP DEFAULT '2001-01-01 00:00:00')",
    "SET time_zone='SYSTEM', lc_time_names='de_DE'",
    "SET auto_increment_increment=5, auto_increment_offset=2",
    "CREATE PROCEDURE p() SELECT 1",
    "SET auto_increment_increment=1, auto_increment_offset=1",
    "SET NAMES latin1",
    b"CREATE TABLE `gr\xfcn` (id INT) COMMENT 'stra\xdfe'",
    "SET NAMES utf8mb4",
    "DROP TABLE zoned, keyed",
    "BEGIN",
    "INSERT INTO t (id) VALUES (7)",
    "SAVEPOINT s1",
    "INSERT INTO t (id) VALUES (8)",
    "COMMIT",
]
MYSQL = ["SET binlog_rows_query_log_events=1", "UPDATE t SET tiny=9 WHERE id=3"]
MYSQL_8 = [
    "CREATE TABLE vectors (id INT PRIMARY KEY, v VECTOR(3), hidden INT INVISIBLE)",
    "INSERT INTO vectors (id, v) VALUES (1, TO_VECTOR('[1,2,3]'))",
]
MARIADB = [
    "SET binlog_annotate_row_events=1",
    "INSERT INTO t (id) VALUES (30)",
    "SET SESSION binlog_format='STATEMENT'",
    "INSERT INTO t (id, made) VALUES (31, NOW(3))",
    "UPDATE t, parted SET t.tiny=1, parted.v=9 WHERE t.id=31",
    "SET SESSION binlog_format='ROW'",
]
MARIADB_11 = [
    "SET character_set_collations='utf8mb4=uca1400_ai_ci,latin1=latin1_bin'",
    "CREATE TABLE collated (a VARCHAR(3) CHARACTER SET utf8mb4)",
]


def connect(server: dict[str, Any]) -> pymysql.Connection:
    """An administrator's connection."""
    return pymysql.connect(
        unix_socket=server["socket"],
        user=server["root_user"],
        password=server["root_password"],
        autocommit=True,
    )


def capture(name: str, server: dict[str, Any]) -> dict[str, Any]:
    """Run the workload on a server and read what it logged."""
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        file = cursor.fetchall()[-1][0]
        statements: list[str | bytes] = list(COMMON)
        if server["flavor"] == "mysql":
            statements += MYSQL
            if not name.endswith("5.6"):
                statements += MYSQL_8
        else:
            statements += MARIADB
            if name.split("-")[1].startswith("11"):
                statements += MARIADB_11
        statements.append(f"DROP DATABASE {DATABASE}")
        for statement in statements:
            if isinstance(statement, bytes):
                statement = statement.decode("latin1")
                connection.encoding = "latin1"
            cursor.execute(statement)
            connection.encoding = "utf8"
        connection.encoding = "latin1"
        cursor.execute(f"SHOW BINLOG EVENTS IN '{file}'")
        rows = cursor.fetchall()
        cursor.execute("SELECT VERSION(), @@datadir, @@log_bin_basename")
        version, _, basename = cursor.fetchone()
    data = Path(basename).with_name(file).read_bytes()
    counts: dict[str, int] = {}
    events = []
    for _, position, type_name, server_id, end, _ in rows:
        size = int.from_bytes(data[position + 9 : position + 13], "little")
        raw = data[position : position + size]
        limit = 40 if type_name == "Query" else KEPT_PER_TYPE
        if len(raw) > MAX_SIZE or counts.setdefault(type_name, 0) >= limit:
            continue
        counts[type_name] += 1
        events.append(
            {
                "position": position,
                "type": type_name,
                "server_id": server_id,
                "end_position": end,
                "hex": raw.hex(),
            }
        )
    return {"server": name, "version": version, "file": file, "events": events}


def main() -> None:
    """Parse arguments and capture from each server."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("tests/golden/events"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, server in json.loads(arguments.servers.read_text()).items():
        result = capture(name, server)
        path = arguments.out / f"{name}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"{path}: {len(result['events'])} events of {result['version']}")


if __name__ == "__main__":
    main()
