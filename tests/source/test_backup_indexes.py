"""The sidecar indexes that a backup writes of its finished files."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from replica_client.archive.backup.backup_catalog import Catalog, FileRecord
from replica_client.archive.backup.engine import Backup, BackupOptions
from replica_client.archive.backup.finished_files import FinishedFiles
from replica_client.archive.binlog_archive import IndexedFiles
from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.testing import BinlogSource
from tests.source.binlogs import two_files


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


async def back_up(paths: list[Path], directory: Path, **changes: Any) -> None:
    async with BinlogSource(paths) as source:
        await Backup(source.url, directory, BackupOptions(stop_at_end=True, **changes)).run()


def indexed(directory: Path, where: Path) -> dict[str, bytes]:
    """What ``replica-client index`` makes of a directory."""
    for _ in IndexedFiles(str(directory), DecodeOptions(), index_directory=where):
        pass
    return {path.name: path.read_bytes() for path in where.iterdir()}


def written(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.rcindex")}


@pytest.mark.parametrize("mariadb", [False, True], ids=["mysql", "mariadb"])
@pytest.mark.parametrize("checksum", [True, False], ids=["crc", "plain"])
async def test_equal_to_what_index_makes(tmp_path, mariadb, checksum) -> None:
    paths = two_files(tmp_path, mariadb=mariadb, checksum=checksum)
    await back_up(paths, tmp_path / "copy")
    found = written(tmp_path / "copy")
    assert list(found) == ["binlog.000001.rcindex"]
    wanted = indexed(tmp_path / "copy", tmp_path / "other")
    assert found.items() <= wanted.items()


async def test_the_next_run_makes_what_a_kill_left_out_or_left_behind(tmp_path) -> None:
    """Missing, cut, of another file, older than its file: never believed, made again."""
    paths = two_files(tmp_path)
    await back_up(paths, tmp_path / "copy")
    (name,) = wanted = written(tmp_path / "copy")
    index = tmp_path / "copy" / name
    other = indexed(tmp_path / "copy", tmp_path / "other")["binlog.000002.rcindex"]
    good = wanted[name]
    damaged = good[:20] + bytes((good[20] ^ 1,)) + good[21:]
    for left in (None, b"", good[:40], damaged, other):
        index.unlink()
        if left is not None:
            index.write_bytes(left)
        await back_up(paths, tmp_path / "copy")
        assert written(tmp_path / "copy") == wanted
    (tmp_path / "copy" / ".binlog.000001.rcindex.tmp").write_bytes(good[:40])
    await back_up(paths, tmp_path / "copy")
    assert [one.listed.name for one in IndexedFiles(str(tmp_path / "copy"), DecodeOptions())] == [
        path.name for path in paths
    ]


async def test_none_where_none_is_wanted(tmp_path) -> None:
    await back_up(two_files(tmp_path), tmp_path / "copy", indexes=False)
    assert written(tmp_path / "copy") == {}


def catalog_of(directory: Path, names: list[str], gone: tuple[str, ...] = ()) -> Catalog:
    for name in names:
        if name not in gone:
            (directory / name).touch()
    return Catalog(directory, files=[FileRecord(name, finished=True) for name in names])


async def test_files_that_were_moved_away_and_a_stop(tmp_path) -> None:
    """Only what stands behind the last missing file, in order; a stop ends behind the file in work."""
    names = [f"b.{number:06}" for number in range(1, 7)]
    begun, goes_on, made = threading.Event(), threading.Event(), []

    def make(path: Path) -> None:
        made.append(path.name)
        begun.set()
        assert goes_on.wait(30)

    writer = FinishedFiles(catalog_of(tmp_path, names, (names[0], names[2])), make=make)
    writer.start()
    assert await asyncio.to_thread(begun.wait, 30)
    stopping = asyncio.create_task(writer.stop())
    await asyncio.sleep(0)
    goes_on.set()
    await stopping
    assert made == names[3:4]


async def test_a_file_that_cannot_be_indexed_ends_indexes_and_not_the_backup(
    tmp_path, caplog
) -> None:
    names = [f"b.{number:06}" for number in range(1, 4)]
    made = []

    def make(path: Path) -> None:
        made.append(path.name)
        if len(made) == 2:
            raise BinlogDecodeError("damaged", file=path.name)

    writer = FinishedFiles(catalog_of(tmp_path, names), make=make)
    writer.start()
    await writer.finish()
    assert made == names[:2]
    assert "damaged" in writer.fault
    assert "no more indexes" in caplog.text
