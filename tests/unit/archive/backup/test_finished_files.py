"""Finished files of a backup: kept, released, and removed when they are too old."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.archive.backup.backup_catalog import Catalog, FileRecord
from replica_client.archive.backup.finished_files import FileKeeper, FinishedFiles, KeepOptions
from replica_client.storage import kept_file
from replica_client.storage.files import open_file
from replica_client.storage.kept_file import Keeping, keep
from replica_client.storage.location import location
from replica_client.storage.object_store import ObjectStore

DAY = 86400
DATA = Path(rc.__file__).parent / "testing" / "data"


def catalog_of(directory: Path, days: list[int]) -> Catalog:
    """A backup with a file of each age in days, and the one that grows."""
    directory.mkdir()
    records = []
    for number, age in enumerate([*days, 0], 1):
        name, data = f"b.{number:06}", bytes([number]) * 5000
        (directory / name).write_bytes(data)
        ended = int(time.time()) - age * DAY
        digest = hashlib.sha256(data).hexdigest()
        records.append(FileRecord(name, 5000, True, digest, last_timestamp=ended))
    records[-1].finished, records[-1].sha256 = False, None
    catalog = Catalog(directory, files=records)
    catalog.save()
    return catalog


async def run(catalog: Catalog, options: KeepOptions) -> FinishedFiles:
    finished = FinishedFiles(catalog, FileKeeper(catalog.directory, options), indexes=False)
    finished.start()
    await finished.finish()
    return finished


async def test_all_but_the_newest_finished_file_are_kept(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path / "copy", [3, 2, 1])
    store = tmp_path / "store"
    finished = await run(catalog, KeepOptions(Keeping(compressed=True), store))
    assert not finished.kept_fault
    there = sorted(path.name for path in catalog.directory.iterdir())
    assert there == ["b.000003", "b.000004", "backup.json"]
    for number in (1, 2):
        with open_file(store / f"b.00000{number}.5000.rcz") as stream:
            assert stream.read() == bytes([number]) * 5000
    entries = json.loads((store / "backup.json").read_text())["files"]
    assert [one["kept"] for one in entries] == [
        *("b.000001.5000.rcz", "b.000002.5000.rcz"),
        *(None, None),
    ]
    assert Catalog.load(catalog.directory).files[1].kept == "b.000002.5000.rcz"


async def test_files_that_are_too_old_are_removed_from_the_oldest_on(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path / "copy", [50, 40, 10, 60, 60])
    await run(catalog, KeepOptions(days=30))
    assert [one.removed for one in catalog.files] == [True, True, False, False, False, False]
    assert not (catalog.directory / "b.000001").exists()
    assert (catalog.directory / "b.000004").exists()
    store = tmp_path / "store"
    await run(catalog, KeepOptions(Keeping(compressed=True), store, 5))
    assert [one.removed for one in catalog.files] == [True] * 4 + [False] * 2
    assert [path.name for path in store.iterdir()] == ["backup.json"]
    assert (catalog.directory / "b.000005").exists()


@pytest.mark.parametrize("damaged", [True, False], ids=["damaged", "no store"])
async def test_a_file_that_cannot_be_kept_stays(tmp_path: Path, damaged: bool) -> None:
    catalog = catalog_of(tmp_path / "copy", [3, 2, 1])
    store = tmp_path / "store"
    if damaged:
        (catalog.directory / "b.000001").write_bytes(bytes(5000))
    else:
        store.write_bytes(b"no directory")
    finished = await run(catalog, KeepOptions(Keeping(compressed=True), store))
    assert ("the file was not removed" if damaged else "store") in finished.kept_fault
    assert all((catalog.directory / one.name).exists() for one in catalog.files)
    if not damaged:
        store.unlink()
        assert not (await run(catalog, KeepOptions(Keeping(compressed=True), store))).kept_fault
        assert not (catalog.directory / "b.000001").exists()


async def test_a_process_that_was_killed_in_between_goes_on(tmp_path: Path) -> None:
    """The kept form is written and the catalogue does not say so, or says so and the file is still there."""
    catalog = catalog_of(tmp_path / "copy", [3, 2, 1])
    options = KeepOptions(Keeping(compressed=True), tmp_path / "store")
    keeper = FileKeeper(catalog.directory, options)
    keeper.keep(catalog.files[0])
    catalog.files[1].kept = keeper.keep(catalog.files[1])
    catalog.save()
    again = Catalog.load(catalog.directory)
    assert keeper.location(again.files[1]) == catalog.directory / "b.000002"
    assert not (await run(again, options)).kept_fault
    assert [one.kept is not None for one in again.files] == [True, True, False, False]
    assert sorted(path.name for path in catalog.directory.iterdir())[0] == "b.000003"


async def test_an_index_in_a_store_is_proved_by_the_listing(
    tmp_path: Path, make_bucket: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question costs one request for each file, and two for the listing; another file is found out."""
    directory, key = tmp_path / "copy", b"\x5a" * 32
    directory.mkdir()
    monkeypatch.setenv(kept_file.KEY_VARIABLE, key.hex())
    records = []
    for path in sorted(DATA.glob("shop-bin.00000?")):
        shutil.copy(path, directory)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        records.append(FileRecord(path.name, path.stat().st_size, True, digest))
    rc.open_archive(directory).index()
    url = f"{make_bucket()}/kept"
    keeper = FileKeeper(directory, KeepOptions(Keeping(True, key), location(url)))
    kept = [keeper.keep(record) for record in records]
    asked: list[str] = []
    for name in ("begin", "read", "children", "status"):
        call = getattr(ObjectStore, name)

        def counted(store, *given, _call=call, _name=name):
            asked.append(f"{_name} {given[0] if given else store.url}")
            return _call(store, *given)

        monkeypatch.setattr(ObjectStore, name, counted)
    expected = [str(one) for one in rc.open_archive(directory).find("shop.orders", 999)]
    asked.clear()
    assert [str(one) for one in rc.open_archive(url).find("shop.orders", 999)] == expected
    assert len(asked) == 2 + len(records), asked
    # Another file of the same name and size: its index is made again, and nothing is taken from the old one.
    name = kept[0]
    assert name is not None
    other = bytearray((directory / records[0].name).read_bytes())
    other[4 + 13] ^= 1  # a flag of the format description
    with (tmp_path / "other").open("w+b") as made:
        (tmp_path / "plain").write_bytes(other)
        with (tmp_path / "plain").open("rb") as plain:
            keep(plain, len(other), made, Keeping(True, key))
        made.seek(0)
        ObjectStore(location(url)).upload(name, made)
    with pytest.raises(rc.ReplicaClientError):  # its checksum is wrong now
        list(rc.open_archive(url).find("shop.orders", 1))
