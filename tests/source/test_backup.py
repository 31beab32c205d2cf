"""A backup of the testing source: whatever happens to the line, the files come out byte for byte."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from replica_client.archive.backup.backup_catalog import INDEX_NAME, locked
from replica_client.archive.backup.engine import Backup, BackupOptions
from replica_client.errors import (
    BackupError,
    BackupGapError,
    BackupMismatchError,
    BinlogDecodeError,
    ChecksumMismatchError,
    ReplicaClientError,
    ServerError,
    TransportError,
)
from replica_client.protocol.binlog.encoder import event_checksum
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.wire.server_errors import server_error
from replica_client.stream.live.stream_options import ReconnectPolicy
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutAt, Drip, FlipByte, InjectEvent, SendError, Stall
from tests.source.binlogs import TIMESTAMP, BinlogMaker, two_files, type_of
from tests.source.conftest import read_all

FAST = ReconnectPolicy(first_delay=0.0, max_delay=0.0)
FLAVORS = pytest.mark.parametrize("mariadb", [False, True], ids=["mysql", "mariadb"])


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch) -> None:
    """Thousands of runs; scripts/proofs/backup syncs."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def options(**changes: object) -> BackupOptions:
    settings = {"stop_at_end": True, "reconnect": FAST, "read_timeout": 5.0, "indexes": False}
    return BackupOptions(**{**settings, **changes})


async def back_up(source: BinlogSource, directory: Path, **changes: object) -> Backup:
    backup = Backup(source.url, directory, options(**changes))
    await backup.run()
    return backup


def content(path: Path) -> bytes:
    return path.read_bytes()


def as_open(data: bytes) -> bytes:
    """A file as it is while its server writes it: LOG_EVENT_BINLOG_IN_USE_F is set."""
    return data[:21] + bytes((data[21] | 1,)) + data[22:]


def index(directory: Path) -> dict[str, Any]:
    return dict(json.loads((directory / INDEX_NAME).read_text()))


def assert_equal(directory: Path, paths: list[Path]) -> None:
    for number, path in enumerate(paths):
        wanted = content(path) if number < len(paths) - 1 else as_open(content(path))
        assert content(directory / path.name) == wanted, path.name
    assert sorted(p.name for p in directory.iterdir()) == [INDEX_NAME, *(p.name for p in paths)]


@FLAVORS
@pytest.mark.parametrize("checksum", [True, False], ids=["crc", "plain"])
async def test_files_and_index(tmp_path, mariadb, checksum) -> None:
    paths = two_files(tmp_path, mariadb=mariadb, checksum=checksum)
    finished = []
    async with BinlogSource(paths) as source:
        backup = Backup(source.url, tmp_path / "copy", options(), on_file=finished.append)
        last = await backup.run()
    assert_equal(tmp_path / "copy", paths)
    first, second = index(tmp_path / "copy")["files"]
    assert first["sha256"] == hashlib.sha256(content(paths[0])).hexdigest()
    assert (first["finished"], second["finished"]) == (True, False)
    assert [record.name for record in finished] == ["binlog.000001"]
    assert (first["size"], second["size"]) == tuple(path.stat().st_size for path in paths)
    assert first["next_file"] == "binlog.000002"
    assert last is not None
    assert last.name == "binlog.000002"
    after = "0-11-5" if mariadb else "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
    assert first["gtid_set_before"] == ""
    assert first["gtid_set_after"] == second["gtid_set_before"] == after
    assert second["gtid_set_after"] == after.replace("5", "10") if mariadb else after[:-1] + "10"
    assert first["first_timestamp"] == first["last_timestamp"] == 1_700_000_000


@FLAVORS
@pytest.mark.parametrize("cut", [None, 1000, 1100, 1200, 1300, 1400])
async def test_source_crashed_behind_the_last_event_of_a_file(tmp_path, mariadb, cut) -> None:
    """MariaDB then leaves the flag of a file in use in it, and its next file says that it started."""
    first = BinlogMaker(mariadb=mariadb)
    second = BinlogMaker(mariadb=mariadb, first=6, created=TIMESTAMP)
    for _ in range(5):
        first.transaction()
    first.rotate("binlog.000002")
    paths = [first.save(tmp_path / "binlog.000001"), second.save(tmp_path / "binlog.000002")]
    async with BinlogSource(paths) as source:
        if cut is not None:
            source.faults[:] = [CutAt(cut, connection=0)]
        await back_up(source, tmp_path / "copy")
    wanted = as_open(content(paths[0])) if mariadb else content(paths[0])
    assert content(tmp_path / "copy" / "binlog.000001") == wanted
    entry = index(tmp_path / "copy")["files"][0]
    assert entry["sha256"] == hashlib.sha256(wanted).hexdigest()


@pytest.mark.timeout(300)
@FLAVORS
async def test_cut_at_every_byte(tmp_path, mariadb) -> None:
    """The first connection is cut at each byte of the dump of a file and the next one's first event, then at some."""
    paths = two_files(tmp_path, mariadb=mariadb, transactions=1)
    async with BinlogSource(paths) as source:
        events = await read_all(source.url, DumpRequest(paths[0].name, non_block=True))
        sent = sum(len(event) + 5 for event in events) + 9
        # The second file's events are of the same kinds as those of the first, between two ROTATE events.
        _, second = (
            at
            for at, event in enumerate(events)
            if type_of(event) == EventType.FORMAT_DESCRIPTION_EVENT
        )
        closely = sum(len(event) + 5 for event in events[: second + 1])
        for after in [*range(closely), *range(closely, sent, 11), sent]:
            number = source.connections
            source.faults[:] = [CutAt(after, connection=number)]
            directory = tmp_path / str(after)
            await back_up(source, directory)
            assert_equal(directory, paths)
            assert source.connections - number == (1 if after >= sent else 2)
            assert index(directory)["files"][1]["size"] == paths[1].stat().st_size


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", [97, 251, 1009])
@FLAVORS
async def test_cut_every_nth_byte_of_every_connection(tmp_path, mariadb, step) -> None:
    """Each connection gets a little further than the one before."""
    paths = two_files(tmp_path, mariadb=mariadb, transactions=30)
    size = sum(path.stat().st_size for path in paths)
    async with BinlogSource(paths) as source:
        source.faults[:] = [CutAt(700 + step + i % 50, connection=i) for i in range(size)]
        backup = await back_up(source, tmp_path / "copy")
    assert_equal(tmp_path / "copy", paths)
    assert backup.status.connections > size / (step + 900)


async def test_stopped_at_every_event_and_run_again(tmp_path) -> None:
    """Each run is cancelled somewhere, as by SIGTERM, and its file then torn at any byte."""
    paths = two_files(tmp_path, transactions=12)
    chance = random.Random(4)
    directory = tmp_path / "copy"
    async with BinlogSource(paths) as source:
        for _ in range(60):
            source.faults[:] = [Drip(chance.randrange(20, 200), 0.0005)]
            run = asyncio.ensure_future(back_up(source, directory))
            await asyncio.sleep(chance.random() * 0.04)
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            newest = max(directory.glob("binlog.*"), default=None) if directory.exists() else None
            if newest is not None and not index(directory)["files"][-1]["finished"]:
                data = content(newest)
                newest.write_bytes(data[: max(0, len(data) - chance.choice((0, 0, 1, 5, 60)))])
        source.faults.clear()
        await back_up(source, directory)
    assert_equal(directory, paths)


@pytest.mark.parametrize("piece_size", [1, 7])
async def test_drip(tmp_path, piece_size) -> None:
    paths = two_files(tmp_path)
    async with BinlogSource(paths, faults=[Drip(piece_size)]) as source:
        await back_up(source, tmp_path / "copy")
    assert_equal(tmp_path / "copy", paths)


async def test_stalled_source_is_left(tmp_path) -> None:
    paths = two_files(tmp_path)
    async with BinlogSource(paths, faults=[Stall(after=600, connection=0)]) as source:
        backup = await back_up(source, tmp_path / "copy", read_timeout=1.0)
    assert backup.status.connections == 2
    assert_equal(tmp_path / "copy", paths)


async def test_follows_rotations_and_growth(tmp_path) -> None:
    maker = BinlogMaker()
    maker.transaction()
    directory = tmp_path / "copy"
    async with BinlogSource(maker.save(tmp_path / "binlog.000001")) as source:
        run = asyncio.ensure_future(back_up(source, directory, stop_at_end=False))
        for _ in range(3):
            await asyncio.sleep(0.05)
            source.append(b"".join(_later(maker, source)))
            await asyncio.sleep(0.05)
            source.rotate()
        await asyncio.sleep(0.3)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        served = source.library.files
        for file in served:
            ours = content(directory / file.name)
            theirs = file.read(0, file.size)
            assert ours == (as_open(theirs) if file is served[-1] else theirs)
        assert len(served) == 4


def _later(maker: BinlogMaker, source: BinlogSource) -> list[bytes]:
    """Events of a transaction for the end of the last file."""
    maker.data = maker.data[:0].ljust(source.library.files[-1].size, b"\0")
    return maker.transaction()


async def test_damage_on_the_way_is_mended(tmp_path) -> None:
    paths = two_files(tmp_path)
    faults = [FlipByte(event=7, connection=0), FlipByte(event=9, offset=30, connection=1)]
    async with BinlogSource(paths, faults=faults) as source:
        backup = await back_up(source, tmp_path / "copy")
    assert backup.status.connections == 3
    assert_equal(tmp_path / "copy", paths)


async def test_damage_at_the_source_is_an_error_with_its_position(tmp_path) -> None:
    paths = two_files(tmp_path)
    data = bytearray(content(paths[0]))
    data[len(data) // 2] ^= 1
    paths[0].write_bytes(data)
    async with BinlogSource(paths) as source:
        with pytest.raises(ChecksumMismatchError, match=r"binlog\.000001, position \d+.*CRC-32"):
            await back_up(source, tmp_path / "copy")
        assert source.connections == 3
    ours = content(tmp_path / "copy" / "binlog.000001")
    assert as_open(bytes(data)).startswith(ours)
    assert 4 < len(ours) <= len(data) // 2


async def test_missing_event_is_a_gap(tmp_path) -> None:
    maker = BinlogMaker()
    maker.transaction()
    del maker.data
    maker.data = b"\xfebin" + b"".join(e for i, e in enumerate(maker.events) if i != 3)
    async with BinlogSource(maker.save(tmp_path / "binlog.000001")) as source:
        with pytest.raises(BackupGapError, match="something between is missing"):
            await back_up(source, tmp_path / "copy")


async def test_artificial_event_is_not_kept(tmp_path) -> None:
    paths = two_files(tmp_path)
    maker = BinlogMaker()
    extra = bytearray(maker.query(b"made up"))
    extra[17] |= 0x20
    extra[-4:] = struct.pack("<I", event_checksum(bytes(extra[:-4])))
    async with BinlogSource(paths, faults=[InjectEvent(bytes(extra), 5)]) as source:
        await back_up(source, tmp_path / "copy")
    assert_equal(tmp_path / "copy", paths)


async def test_purged_file_is_named(tmp_path) -> None:
    paths = [*two_files(tmp_path), *_more_files(tmp_path, 3, 5)]
    directory = tmp_path / "copy"
    async with BinlogSource(paths[:1]) as source:
        await back_up(source, directory)
    before = {p.name: content(p) for p in directory.iterdir()}
    async with BinlogSource(paths[3:]) as source:
        with pytest.raises(
            BackupGapError,
            match=r"purged 2 files, from binlog\.000002 .*before binlog\.000004.*ends at",
        ):
            await back_up(source, directory)
    assert {p.name: content(p) for p in directory.iterdir()} == before


async def test_goes_on_behind_a_purged_file_that_is_whole(tmp_path) -> None:
    paths = two_files(tmp_path)
    directory = tmp_path / "copy"
    async with BinlogSource(paths[:1]) as source:
        await back_up(source, directory)
    async with BinlogSource(paths[1:]) as source:
        await back_up(source, directory)
    assert_equal(directory, paths)


def _more_files(directory: Path, first: int, last: int) -> list[Path]:
    out = []
    for number in range(first, last + 1):
        maker = BinlogMaker(first=number * 100)
        maker.transaction()
        if number < last:
            maker.rotate(f"binlog.{number + 1:06d}")
        out.append(maker.save(directory / f"binlog.{number:06d}"))
    return out


def _another(directory: Path, **changes: object) -> Path:
    """A file of the same name as another server, or the same after a reset, would have."""
    maker = BinlogMaker()
    if changes.get("timestamp"):
        data = bytearray(maker.data)
        struct.pack_into("<I", data, 4, 1_800_000_000)
        end = 4 + struct.unpack_from("<I", data, 13)[0]
        struct.pack_into("<I", data, end - 4, event_checksum(bytes(data[4 : end - 4]), True))
        maker.data = bytes(data)
    for _ in range(int(str(changes.get("transactions", 20)))):
        maker.transaction(int(str(changes.get("size", 30))))
    return maker.save(directory / "binlog.000001")


@pytest.mark.parametrize(
    "changes",
    [{"timestamp": True}, {"size": 37}, {"size": 31}, {"transactions": 1}],
    ids=["begun-later", "other-events", "other-sizes", "shorter"],
)
@pytest.mark.parametrize("listed", [True, False])
async def test_another_source_is_refused(tmp_path, changes, listed) -> None:
    paths = two_files(tmp_path)
    directory = tmp_path / "copy"
    maker = BinlogMaker()
    for _ in range(5):
        maker.transaction()
    async with BinlogSource(maker.save(tmp_path / "binlog.000001")) as source:
        await back_up(source, directory)
    before = {p.name: content(p) for p in directory.iterdir()}
    (tmp_path / "other").mkdir()
    async with BinlogSource(_another(tmp_path / "other", **changes)) as source:
        if not listed:
            _hide_list(source)
        with pytest.raises(BackupError, match="binlog.000001") as caught:
            await back_up(source, directory)
        assert isinstance(caught.value, BackupMismatchError | BackupGapError)
        assert "empty directory" in str(caught.value)
    assert {p.name: content(p) for p in directory.iterdir()} == before
    del paths


def _hide_list(source: BinlogSource) -> None:
    """SHOW BINARY LOGS is refused, as without REPLICATION CLIENT."""
    from replica_client.server import understood_sql

    class Refusing(dict):
        def get(self, key, default=None):
            if key == understood_sql.normal("SHOW BINARY LOGS"):
                raise server_error(1227, "42000", "Access denied; you need REPLICATION CLIENT")
            return super().get(key, default)

        def __contains__(self, key):
            return key == understood_sql.normal("SHOW BINARY LOGS") or super().__contains__(key)

        def __getitem__(self, key):
            return self.get(key)

    source.answers = Refusing(source.answers)


async def test_without_the_privilege_to_list_files(tmp_path) -> None:
    paths = two_files(tmp_path)
    async with BinlogSource(paths, faults=[CutAt(900, connection=0)]) as source:
        _hide_list(source)
        backup = await back_up(source, tmp_path / "copy")
    assert backup.status.behind is None
    assert_equal(tmp_path / "copy", paths)


async def test_another_server_uuid_is_refused(tmp_path) -> None:
    paths = two_files(tmp_path)
    async with BinlogSource(paths) as source:
        await back_up(source, tmp_path / "copy")
        source.server_uuid = "11111111-2222-3333-4444-555555555555"
        with pytest.raises(BackupMismatchError, match="11111111-2222"):
            await back_up(source, tmp_path / "copy")


async def test_a_reset_that_kept_the_name_is_refused_by_its_gtids(tmp_path) -> None:
    """The file after ours was begun without the transactions that we have."""
    paths = two_files(tmp_path)
    async with BinlogSource(paths[:1]) as source:
        await back_up(source, tmp_path / "copy")
    maker = BinlogMaker()  # its PREVIOUS_GTIDS are empty
    maker.transaction()
    maker.save(paths[1])
    async with BinlogSource(paths[1:]) as source:
        for _ in range(2):
            with pytest.raises(BackupMismatchError, match="begun without 3e11fa47.*:1-5"):
                await back_up(source, tmp_path / "copy")


async def test_position_that_the_protocol_cannot_ask_for(tmp_path) -> None:
    """Beyond it, the file is compared from its start; here it is made small."""
    paths = two_files(tmp_path, transactions=20)
    faults = [CutAt(2500, connection=0), CutAt(4000, connection=1)]
    async with BinlogSource(paths, faults=faults) as source:
        backup = await back_up(source, tmp_path / "copy", max_position=1000)
    assert backup.status.connections == 3
    assert_equal(tmp_path / "copy", paths)


async def test_error_packets(tmp_path) -> None:
    paths = two_files(tmp_path)
    shutdown = SendError(before_event=6, errno=1053, message="Server shutdown", connection=0)
    async with BinlogSource(paths, faults=[shutdown]) as source:
        await back_up(source, tmp_path / "copy")
    assert_equal(tmp_path / "copy", paths)
    async with BinlogSource(paths, faults=[SendError(2, 1236, "something else")]) as source:
        with pytest.raises(ServerError, match="something else"):
            await back_up(source, tmp_path / "other")


async def test_gives_up_when_the_policy_says_so(tmp_path) -> None:
    policy = ReconnectPolicy(first_delay=0.0, max_delay=0.0, attempts=3)
    async with BinlogSource(two_files(tmp_path), faults=[CutAt(10)]) as source:
        with pytest.raises(TransportError):
            await back_up(source, tmp_path / "copy", reconnect=policy)
        assert source.connections == 4


async def test_no_connection_at_the_start(tmp_path) -> None:
    """A new backup ends at once; one that goes on waits for its source."""
    policy = ReconnectPolicy(first_delay=0.0, max_delay=0.0, attempts=3)
    paths = two_files(tmp_path)
    async with BinlogSource(paths) as source:
        port = source.port
        await back_up(source, tmp_path / "copy")
    tried: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: tried.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("replica_client").addHandler(handler)
    try:
        for directory, count in (("new", 0), ("copy", 3)):
            url = f"mysql://repl:secret@127.0.0.1:{port}/"
            with pytest.raises(TransportError, match="refused"):
                await Backup(url, tmp_path / directory, options(reconnect=policy)).run()
            assert len(tried) == count
    finally:
        logging.getLogger("replica_client").removeHandler(handler)


async def test_one_process_at_a_time(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path)) as source:
        with locked(tmp_path / "copy"), pytest.raises(BackupError, match="another process"):
            await back_up(source, tmp_path / "copy")


async def test_directories_that_are_no_backup(tmp_path) -> None:
    paths = two_files(tmp_path)
    async with BinlogSource(paths) as source:
        with pytest.raises(BackupMismatchError, match=r"holds binlog\.00000. but no backup\.json"):
            await back_up(source, tmp_path)
        directory = tmp_path / "copy"
        await back_up(source, directory)
        saved = (directory / INDEX_NAME).read_bytes()
        for damage in (
            b"",
            b"[]",
            b'{"format": 1}',
            saved[:-20],
            saved.replace(b"000001", b"/../x"),
        ):
            (directory / INDEX_NAME).write_bytes(damage)
            with pytest.raises(BackupMismatchError, match="is damaged"):
                await back_up(source, directory)
        (directory / INDEX_NAME).write_bytes(saved)
        first = content(directory / paths[0].name)
        (directory / paths[0].name).write_bytes(first + b"x")
        with pytest.raises(BackupMismatchError, match="was changed"):
            await back_up(source, directory)
        (directory / paths[0].name).unlink()  # moved to an archive
        await back_up(source, directory)
        assert content(directory / paths[1].name) == as_open(content(paths[1]))


@pytest.mark.parametrize(
    "name",
    [
        "../evil.000001",
        "/etc/evil.000001",
        "a/b.000001",
        "a\\b.000001",
        ".hidden.000001",
        ".000001",
        "backup.json",
        "x",
        "",
        "a\nb.000001",
        "a.000001\n",
        "a\0.000001",
        "\x1b[2Ja.000001",
        "a\u202eb.000001",
        "a.\u0661\u0662",  # digits, but not ASCII's
        "\udcff.000001",  # bytes that are not UTF-8
        "\udce4" * 90 + ".000001",
        "\u20ac" * 90 + ".000001",  # more bytes than a file name may have
    ],
)
async def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name) -> None:
    maker = BinlogMaker()
    maker.transaction()
    no_files = {"SHOW BINARY LOGS": (["Log_name", "File_size"], [])}
    path = maker.save(tmp_path / "binlog.000001")
    async with BinlogSource(path, answers=no_files) as source:
        source.library.files[0].name = name
        with pytest.raises(ReplicaClientError, match="names a binlog file") as caught:
            await back_up(source, tmp_path / "copy")
        assert str(caught.value).isprintable()
    assert [p.name for p in (tmp_path / "copy").iterdir()] == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["binlog.000001", "copy"]


@pytest.mark.parametrize("name", ["../evil.000002", "\udcff.000002", "a\n.000002", "x"])
async def test_a_file_that_says_that_a_strange_one_follows(tmp_path, name) -> None:
    maker = BinlogMaker()
    maker.transaction()
    maker.rotate(name)
    async with BinlogSource(maker.save(tmp_path / "binlog.000001")) as source:
        with pytest.raises(BinlogDecodeError, match="which is not a binlog file name") as caught:
            await back_up(source, tmp_path / "copy")
        assert str(caught.value).isprintable()
    assert {p.name for p in (tmp_path / "copy").iterdir()} == {"binlog.000001", INDEX_NAME}


@pytest.mark.parametrize("seed", range(30))
async def test_random_faults(tmp_path, seed) -> None:
    chance = random.Random(seed)
    paths = two_files(tmp_path, mariadb=bool(seed % 2), transactions=10)
    faults = []
    for number in range(8):
        faults.append(
            CutAt(chance.randrange(200, 3000), reset=chance.random() < 0.3, connection=number)
        )
        if chance.random() < 0.3:
            faults.append(Drip(chance.randrange(1, 50), connection=number))
        if chance.random() < 0.3:
            faults.append(
                FlipByte(chance.randrange(30), chance.randrange(-4, 19), connection=number)
            )
    async with BinlogSource(paths, faults=faults) as source:
        try:
            await back_up(source, tmp_path / "copy")
        except ReplicaClientError:
            source.faults.clear()  # a damaged length, name or position may look like another file
            await back_up(source, tmp_path / "copy")
    assert_equal(tmp_path / "copy", paths)
