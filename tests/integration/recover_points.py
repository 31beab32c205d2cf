"""``replica-client recover`` to random points of a history, each compared with the source then by CHECKSUM TABLE.

Used by scripts/proofs/recovery (many points) and by test_recover.py (a few).
"""

from __future__ import annotations

import datetime
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.integration.as_of_instants import url_of
from tests.integration.relays import checksums
from tests.integration.undo_live import command
from tests.servers.local import SCRIPT, LocalServer

DATABASE = "points"


def client(server: LocalServer, program: str, *arguments: str, **given: bytes) -> bytes:
    """A client program of the server."""
    tls = ["--ssl-mode=DISABLED"] if server.flavor == "mysql" else ["--skip-ssl"]
    done = subprocess.run(
        [
            *(sys.executable, str(SCRIPT), "tool", server.name, program, "--no-defaults"),
            *("--host=127.0.0.1", f"--port={server.port}", "--user=root"),
            *(f"--password={server.password_of('root')}", *tls, *arguments),
        ],
        capture_output=True,
        timeout=120,
        **given,
    )
    assert done.returncode == 0, done.stderr
    return bytes(done.stdout)


class _History:
    """Statements on a source, one transaction after the other."""

    def __init__(self, source: LocalServer, rng: random.Random) -> None:
        self.source, self.rng, self.number = source, rng, 0
        for statement in (
            f"CREATE DATABASE {DATABASE}",
            f"CREATE TABLE {DATABASE}.k (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(200), n INT)",
            f"CREATE TABLE {DATABASE}.keyless (a INT, b VARCHAR(20))",
            f"CREATE TABLE {DATABASE}.d0 (a INT PRIMARY KEY)",
        ):
            source.execute(statement)

    def step(self) -> None:
        """One transaction or statement."""
        rng, source = self.rng, self.source
        self.number += 1
        key, text = f"{DATABASE}.k", rng.choice(("é", "x" * 150, ""))
        with source.connected(autocommit=True) as connection, connection.cursor() as cursor:
            kind = rng.choice(
                ("rows", "rows", "keyless", "xa", "compressed", "alter", "drop", "rotate")
            )
            if kind == "compressed" and source.flavor == "mysql":
                cursor.execute("SET SESSION binlog_transaction_compression = ON")
            if kind == "xa":
                xid = f"'x{self.number}'"
                cursor.execute(f"XA START {xid}")
                cursor.execute(f"INSERT INTO {key} (s, n) VALUES ('xa', {self.number})")
                for statement in ("XA END", "XA PREPARE", rng.choice(("XA COMMIT", "XA ROLLBACK"))):
                    cursor.execute(f"{statement} {xid}")
            elif kind == "keyless":
                cursor.execute(
                    f"INSERT INTO {DATABASE}.keyless VALUES (1, 'x'), (1, 'x'), ({self.number}, 'y')"
                )
                cursor.execute(
                    f"DELETE FROM {DATABASE}.keyless WHERE a = {self.number - 3} LIMIT 1"
                )
            elif kind == "alter":
                cursor.execute(
                    f"ALTER TABLE {key} ADD COLUMN c{self.number} INT DEFAULT {self.number}"
                )
            elif kind == "drop":
                cursor.execute(f"CREATE TABLE {DATABASE}.d{self.number} AS SELECT id, n FROM {key}")
            elif kind == "rotate":
                source.rotate()
            else:
                cursor.execute("BEGIN")
                cursor.execute(f"INSERT INTO {key} (s, n) VALUES (%s, 1), (%s, 2)", (text, text))
                cursor.execute(
                    f"UPDATE {key} SET n = n + 1 WHERE id %% 3 = %s", (rng.randrange(3),)
                )
                cursor.execute("COMMIT")


def _last_gtid(source: LocalServer) -> str:
    if source.flavor == "mariadb":
        return str(source.query("SELECT @@gtid_binlog_pos")[0][0])
    executed = str(source.query("SELECT @@global.gtid_executed")[0][0])
    uuid, _, numbers = executed.partition(":")
    return f"{uuid}:{numbers.rpartition('-')[2].rpartition(':')[2]}"


def prove_points(
    source: LocalServer, target: LocalServer, directory: Path, seed: int, points: int
) -> Counter[str]:
    """Make a history on a source, and recover a server to random points of it, from a dump and an archive.

    Args:
        source: a server with GTIDs, and a server id of its own.
        target: another one of the same kind, which loses everything.
        directory: an empty one.
        seed: of the history.
        points: how many.

    Returns:
        points by what named them, and ``differences``.
    """
    rng = random.Random(seed)
    mysql = source.flavor == "mysql"
    history = _History(source, rng)
    for _ in range(5):
        history.step()
    words = ["--source-data=2", "--set-gtid-purged=OFF"] if mysql else ["--master-data=2"]
    program = "mysqldump" if mysql else "mariadb-dump"
    dump = client(source, program, "--single-transaction", *words, "--databases", DATABASE)
    (directory / "dump.sql").write_bytes(dump)
    asked: list[tuple[str, list[str], Any]] = []
    for number in range(points):
        for _ in range(rng.randrange(1, 6)):
            history.step()
        kind = ("position", "gtid", "drop", "time")[number % 4]
        if kind == "drop":
            source.execute(f"CREATE TABLE {DATABASE}.lost{number} (a INT PRIMARY KEY)")
        wanted = checksums(source, [DATABASE])
        if kind == "position":
            until = ["--until", ":".join(map(str, source.binlog_position()))]
        elif kind == "gtid":
            source.execute(f"INSERT INTO {DATABASE}.k (s) VALUES ('next')")
            until = ["--until", _last_gtid(source)]
        elif kind == "drop":
            source.execute(f"DROP TABLE {DATABASE}.lost{number}")
            until = ["--before-drop", f"{DATABASE}.lost{number}"]
        else:
            time.sleep(1.1)  # MariaDB's times are whole seconds
            until = ["--until", datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")]
            time.sleep(1.1)
        asked.append((kind, until, wanted))
    history.step()
    source.rotate()
    archive = directory / "archive"
    copied = command("backup", url_of(source), str(archive), "--stop-at-end")
    assert copied.returncode == 0, copied.stderr
    counts: Counter[str] = Counter()
    for kind, until, wanted in asked:
        target.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        if not mysql:
            target.execute("SET GLOBAL gtid_slave_pos = ''")
        client(target, "mysql" if mysql else "mariadb", input=dump)
        target.reset_binlog()
        recover = ["recover", str(archive), "--dump", str(directory / "dump.sql")]
        done = command(*recover, "--to", url_of(target), *until)
        assert done.returncode == 0, (kind, until, done.stderr)
        counts[kind] += 1
        found = checksums(target, [DATABASE])
        if found != wanted:
            counts["differences"] += 1
            print(f"seed {seed}, {source.name}, {kind} {until}: {found}, not {wanted}")
    return counts
