"""Point-in-time recovery of random histories: what redo gives, against ``mysqlbinlog | mysql``, by CHECKSUM TABLE."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from replica_client.archive.archive import make_question, open_archive
from replica_client.archive.undo import make_statements
from tests.integration.undo_histories import SETTINGS, Table, checksums
from tests.servers.local import SCRIPT, LocalServer

PROGRAMS = {"mysql": ("mysqlbinlog", "mysql"), "mariadb": ("mariadb-binlog", "mariadb")}


def replay(server: LocalServer, files: list[str], *options: str) -> None:
    """What the handbook says: ``mysqlbinlog FILE… | mysql``."""
    reader, client = PROGRAMS[server.flavor]
    address = server.address
    tool = [sys.executable, str(SCRIPT), "tool", server.name]
    login = [f"--host={address.host}", f"--port={address.port}", "--user=root", "--binary-mode"]
    skip = ["--skip-gtids"] if server.flavor == "mysql" else []
    read = subprocess.run(
        [*tool, reader, *skip, *options, *files], capture_output=True, check=True, timeout=120
    )
    subprocess.run(
        [*tool, client, *login, f"--password={address.root_password}"],
        input=read.stdout,
        capture_output=True,
        check=True,
        timeout=120,
    )


def prove(server: LocalServer, directory: Path, seed: int) -> Counter[str]:
    """One history, recovered up to one of its commits both ways.

    Args:
        server: with an archive of its own, and its client programs.
        directory: for indexes.
        seed: of the history.
    """
    rng = random.Random(seed)
    counts: Counter[str] = Counter(histories=1)
    server.rotate()
    first = server.binlog_position()[0]
    database = server.create_database("recovery")
    connection = server.connect()
    known: list[tuple[tuple[str, int], Any]] = []
    try:
        with connection.cursor() as cursor:
            for setting in (*SETTINGS, "SET foreign_key_checks = 0"):
                cursor.execute(setting)
            tables = [
                Table(rng, f"{database}.t{number}", server.flavor, server.version)
                for number in range(rng.randrange(1, 4))
            ]
            for table in tables:
                cursor.execute(f"CREATE TABLE {table.name} ({table.definition}) ENGINE=InnoDB")
                for _ in range(6):
                    cursor.execute(table.statement(rng))
            connection.commit()
            names = [table.name for table in tables]
            before = checksums(server, names)
            server.rotate()
            begin = server.binlog_position()
            for _ in range(rng.randrange(2, 9)):
                for _ in range(rng.randrange(1, 5)):
                    cursor.execute(rng.choice(tables).statement(rng))
                connection.commit()
                known.append((server.binlog_position(), checksums(server, names)))
                if rng.random() < 0.2:
                    server.rotate()
            end = server.binlog_position()
            server.rotate()
            listed = server.binlog_files()
            files = [server.binlog_path(name) for name in listed[listed.index(first) : -1]]
            archive = open_archive(files, index_directory=directory)

            def run(direction: Any, until: tuple[str, int]) -> None:
                question = make_question(
                    [f"{database}.*"],
                    since=f"{begin[0]}:{begin[1]}",
                    until=f"{until[0]}:{until[1]}",
                )
                with make_statements(archive, question, direction) as statements:
                    for line in statements.lines():
                        if not line.startswith("--"):
                            cursor.execute(line.removesuffix(";"))
                    counts["changes"] += statements.changes

            (file, offset), expected = rng.choice(known)
            run("undo", end)
            assert checksums(server, names) == before
            run("redo", (file, offset))
            ours = checksums(server, names)
            run("undo", (file, offset))
            assert checksums(server, names) == before
            between = listed[listed.index(begin[0]) : listed.index(file) + 1]
            paths = [str(server.binlog_path(one)) for one in between]
            replay(server, paths, f"--start-position={begin[1]}", f"--stop-position={offset}")
            theirs = checksums(server, names)
            if server.flavor == "mariadb":
                run("undo", (file, offset))
                server.rotate()
                made = server.binlog_position()[0]
                run("redo", (file, offset))
                server.rotate()
                try:
                    replay(server, [str(server.binlog_path(made))], "--flashback")
                except subprocess.CalledProcessError as error:
                    counts["flashback failed"] += 1
                    print(f"seed {seed}, {server.name}, flashback: {error.stderr[-300:]!r}")
                    print(*(table.definition for table in tables), sep="\n")
                else:
                    same = checksums(server, names) == before
                    counts["flashback equal" if same else "flashback different"] += 1
    finally:
        connection.close()
    if not ours == theirs == expected:
        counts["differences"] += 1
        print(f"seed {seed}, {server.name}: {expected}, redo {ours}, mysqlbinlog {theirs}")
    else:
        server.drop_database(database)
    return counts
