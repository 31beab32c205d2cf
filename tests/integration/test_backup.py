"""Backups of real servers: byte for byte, through rotations, restarts, crashes, purges and resets."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replica_client import open_archive, open_binlog
from replica_client.archive.backup.engine import Backup, BackupOptions
from replica_client.errors import BackupGapError, BackupMismatchError, DataLossError
from replica_client.storage.location import location
from tests.integration.backups import compare, copied, prove, run_to_end
from tests.servers.local import NAMES, LocalServer

KEY = "770A8A65DA156D24EE2A093277530142"

every_server = pytest.mark.parametrize("name", NAMES)


def write(server: LocalServer, database: str, rounds: int = 3) -> None:
    """Every binlog format, transactions, MyISAM, XA, big rows, a rotation after each round."""
    server.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
    for table, engine in (("t", "InnoDB"), ("m", "MyISAM")):
        server.execute(
            f"CREATE TABLE IF NOT EXISTS {database}.{table} "
            f"(id INT PRIMARY KEY AUTO_INCREMENT, s LONGTEXT, r DOUBLE) ENGINE={engine}"
        )
    with server.connected() as connection, connection.cursor() as cursor:
        for number in range(rounds):
            for binlog_format in ("ROW", "STATEMENT", "MIXED"):
                cursor.execute(f"SET SESSION binlog_format = '{binlog_format}'")
                cursor.execute("SET @x = 5")
                for table in ("t", "m"):
                    cursor.execute(
                        f"INSERT INTO {database}.{table} (s, r) VALUES ('a', RAND()), (@x, 1)"
                    )
                cursor.execute("BEGIN")
                cursor.execute(f"UPDATE {database}.t SET r = r + 1")
                cursor.execute(f"INSERT INTO {database}.t (s) VALUES (REPEAT('z', 300000))")
                cursor.execute("COMMIT")
            for statement in (
                f"XA START 'x{number}'",
                f"INSERT INTO {database}.t (s) VALUES ('xa')",
                f"XA END 'x{number}'",
                f"XA PREPARE 'x{number}'",
                f"XA COMMIT 'x{number}'",
            ):
                cursor.execute(statement)
            cursor.execute("FLUSH BINARY LOGS")


def back_up(
    server: LocalServer, directory: Path, user: str = "repl", *, after_gap: bool = False
) -> Backup:
    options = BackupOptions(stop_at_end=True, after_gap=after_gap)
    backup = Backup(server.url(user), directory, options)
    asyncio.run(backup.run())
    return backup


def assert_copied(server: LocalServer, directory: Path) -> None:
    copied(server, directory, lambda: back_up(server, directory))


def purge_to_newest(server: LocalServer) -> None:
    """MariaDB keeps files for a while that a crash would need."""
    newest = server.binlog_files()[-1]
    deadline = time.monotonic() + 60
    while len(server.binlog_files()) > 1:
        assert time.monotonic() < deadline, "the source does not purge"
        server.execute(f"PURGE BINARY LOGS TO '{newest}'")
        time.sleep(0.1)


@every_server
def test_files_of_every_kind(fresh_server, tmp_path: Path, name: str) -> None:
    server = fresh_server(name)
    directory = tmp_path / "copy"
    write(server, "one")
    assert_copied(server, directory)
    # Files with and without checksums, whatever the source writes just now.
    server.execute("SET GLOBAL binlog_checksum = NONE")
    write(server, "two", 1)
    assert_copied(server, directory)
    server.execute("SET GLOBAL binlog_checksum = CRC32")
    write(server, "three", 1)
    assert_copied(server, directory)
    assert_copied(server, tmp_path / "at once")
    events = [event for event in open_binlog(directory).events() if event.inner_index is None]
    assert sum(event.header.event_size for event in events) == sum(
        path.stat().st_size - 4 for path in directory.glob("binlog.*[0-9]")
    )


@every_server
def test_restart_and_crash_of_the_source(fresh_server, tmp_path: Path, name: str) -> None:
    server = fresh_server(name)
    directory = tmp_path / "copy"
    write(server, "one", 1)
    back_up(server, directory)
    server.restart()  # ends the file with STOP
    write(server, "two", 1)
    assert_copied(server, directory)
    server.kill()  # ends it with nothing; MariaDB leaves LOG_EVENT_BINLOG_IN_USE_F in it
    server.restart()
    assert_copied(server, directory)
    assert_copied(server, tmp_path / "at once")


@every_server
def test_purged_and_reset(fresh_server, tmp_path: Path, name: str) -> None:
    server = fresh_server(name)
    directory = tmp_path / "copy"
    write(server, "one", 1)
    back_up(server, directory)
    first, second = server.binlog_files()
    before = {p.name: p.read_bytes() for p in directory.iterdir()}
    write(server, "one", 2)
    purge_to_newest(server)
    with pytest.raises(BackupGapError, match=rf"purged 2 files, from {second} up to") as caught:
        back_up(server, directory)
    assert f"ends at {second}:" in str(caught.value)
    assert {p.name: p.read_bytes() for p in directory.iterdir()} == before
    beyond = tmp_path / "beyond"
    shutil.copytree(directory, beyond)
    back_up(server, beyond, after_gap=True)
    write(server, "one", 1)
    back_up(server, beyond)
    entries = json.loads((beyond / "backup.json").read_text())["files"]
    there = server.binlog_files()
    assert [one["name"] for one in entries] == [first, second, *there]
    assert [one["after_gap"] for one in entries] == [False, False, True, *[False] * len(there[1:])]
    assert all(one["finished"] for one in entries[:-1])
    for one in there:
        assert (beyond / one).read_bytes() == server.binlog_path(one).read_bytes()
    for one in (first, second):
        kept = (beyond / one).read_bytes()
        assert kept[:21] == before[one][:21]  # then the flag of a file in use
        assert kept[22:] == before[one][22:]
    with pytest.raises(DataLossError, match=f"between {second} and {there[0]}"):
        open_archive(beyond)
    server.reset_binlog()
    with pytest.raises(BackupGapError, match="was reset"):
        back_up(server, beyond, after_gap=True)
    with pytest.raises(BackupGapError, match="was reset"):
        back_up(server, directory)
    write(server, "another", 3)  # the old names are there again
    assert second in server.binlog_files()
    with pytest.raises(BackupMismatchError, match="empty directory"):
        back_up(server, directory)
    assert {p.name: p.read_bytes() for p in directory.iterdir()} == before
    assert first


@every_server
def test_reset_under_a_running_backup(fresh_server, tmp_path: Path, name: str) -> None:
    server = fresh_server(name)
    write(server, "one", 1)

    async def run() -> None:
        backup = Backup(server.url(), tmp_path / "copy")
        task = asyncio.ensure_future(backup.run())
        async with asyncio.timeout(40):
            while backup.status.file != "binlog.000002":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.to_thread(server.reset_binlog)
        await asyncio.to_thread(write, server, "two", 1)
        async with asyncio.timeout(40):
            await task

    with pytest.raises((BackupGapError, BackupMismatchError)):
        asyncio.run(run())


def test_without_the_privilege_to_list_files(fresh_server, tmp_path: Path) -> None:
    server = fresh_server("mysql-9.7")
    server.execute("CREATE USER bare@'%' IDENTIFIED BY 'secret'")
    server.execute("GRANT REPLICATION SLAVE ON *.* TO bare@'%'")
    write(server, "one", 1)
    for _ in range(2):
        backup = back_up(server, tmp_path / "copy", "bare")
        assert backup.status.behind is None
        compare(server, tmp_path / "copy")
        write(server, "one", 1)
    purge_to_newest(server)
    with pytest.raises(BackupGapError, match="no longer has the next events"):
        back_up(server, tmp_path / "copy", "bare")


def test_encrypted_files_come_in_clear(fresh_server, tmp_path: Path) -> None:
    """MariaDB keeps sizes and positions, and sends START_ENCRYPTION marked as ignorable."""
    keys = tmp_path / "keys.txt"
    keys.write_text(f"1;{KEY}\n")
    tmp_path.chmod(0o755)
    server = fresh_server(
        "mariadb-10.11",
        [
            "plugin-load-add=file_key_management",
            f"file-key-management-filename={keys}",
            "encrypt-binlog=ON",
        ],
    )
    directory = tmp_path / "copy"
    for _ in range(3):
        write(server, "one", 1)
        server.execute("INSERT INTO one.t (s) VALUES ('more')")
        back_up(server, directory)  # goes on in the middle of a file
    position = None
    while position != server.binlog_position():  # MariaDB adds its BINLOG_CHECKPOINT when it likes
        position = server.binlog_position()
        back_up(server, directory)
    entries = json.loads((directory / "backup.json").read_text())["files"]
    assert [entry["name"] for entry in entries] == server.binlog_files()
    for entry in entries:
        assert entry["decrypted"]
        assert entry["size"] == server.binlog_path(entry["name"]).stat().st_size
        if entry["finished"]:
            ours = (directory / entry["name"]).read_bytes()
            assert entry["sha256"] == hashlib.sha256(ours).hexdigest()
    texts = [
        event.body.query for event in open_binlog(directory).events() if event.header.type_code == 2
    ]
    assert any(b"RAND()" in text for text in texts)


def test_compressed_transactions_and_tagged_gtids(fresh_server, tmp_path: Path) -> None:
    server = fresh_server("mysql-9.7", ["binlog-transaction-compression=ON"])
    write(server, "one", 1)
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("SET gtid_next = 'AUTOMATIC:nightly'")
        cursor.execute("INSERT INTO one.t (s) VALUES (REPEAT('q', 100000))")
        cursor.execute("SET gtid_next = 'AUTOMATIC'")
    server.rotate()
    assert_copied(server, tmp_path / "copy")
    entries = json.loads((tmp_path / "copy" / "backup.json").read_text())["files"]
    [(executed,)] = server.query("SELECT @@global.gtid_executed")
    assert entries[-1]["gtid_set_after"] == executed.replace("\n", "")
    assert "nightly" in executed


@pytest.mark.timeout(240)
@every_server
def test_backup_survives_sigkill(fresh_server, tmp_path: Path, name: str) -> None:
    server = fresh_server(name, ["max-binlog-size=65536"])
    report = prove(server, tmp_path / "copy", kills=6, seed=21)
    assert (report.kills, report.restarts, report.crashes) == (6, 1, 1)
    assert len(report.sizes) > 8


@pytest.mark.timeout(240)
@pytest.mark.parametrize("place", ["directory", "store"])
def test_kept_files_survive_sigkill(
    fresh_server: Any,
    tmp_path: Path,
    make_bucket: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    server = fresh_server("mariadb-11.8", ["max-binlog-size=65536"])
    monkeypatch.setenv("REPLICA_CLIENT_ARCHIVE_KEY", "5a" * 32)
    directory = tmp_path / "copy"
    options = ["--compress", "--encrypt"]
    if place == "store":
        options += ["--store", f"{make_bucket()}/kept"]
    store = location(options[-1]) if place == "store" else directory
    report = prove(
        server, directory, kills=4, seed=22, restarts=False, options=options, store=store
    )
    assert report.kills == 4
    assert len(report.sizes) > 6


def test_the_printed_lines(fresh_server, tmp_path: Path) -> None:
    server = fresh_server("mysql-9.7")
    write(server, "one", 1)
    lines = run_to_end(server, tmp_path / "copy")
    assert [line["file"] for line in lines] == ["binlog.000001", "binlog.000002"]
    assert [line["finished"] for line in lines] == [True, False]
    assert run_to_end(server, tmp_path / "copy")[0]["file"] == "binlog.000002"


def test_source_killed_between_two_files(fresh_server, tmp_path: Path) -> None:
    """A MariaDB that dies in a rotation leaves a file that has its end and the flag of one in use."""
    server = fresh_server("mariadb-10.11")

    def rotate(halt: threading.Event, rotated: threading.Semaphore) -> None:
        with contextlib.suppress(Exception):  # the server is killed
            while not halt.is_set():
                server.execute("FLUSH BINARY LOGS")  # which waits for nothing
                rotated.release()

    for _ in range(4):
        halt, rotated = threading.Event(), threading.Semaphore(0)
        rotating = threading.Thread(target=rotate, args=(halt, rotated))
        rotating.start()
        for _ in range(3):
            assert rotated.acquire(timeout=60)
        server.kill()
        halt.set()
        rotating.join(30)
        server.restart()
    assert len(copied(server, tmp_path / "copy", lambda: run_to_end(server, tmp_path / "copy"))) > 8
