"""The files of a testing source."""

import pytest

from replica_client.errors import BinlogFormatError, ConfigError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.server.dump_start import DumpOrder, find_start
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary
from tests.source.binlogs import SOURCE_UUID, BinlogMaker, two_files


def test_what_two_files_say(tmp_path) -> None:
    library = BinlogLibrary(two_files(tmp_path))
    assert [file.name for file in library.files] == ["binlog.000001", "binlog.000002"]
    assert library.executed() == GtidSet.parse(f"{SOURCE_UUID}:1-10")
    assert library.purged() == GtidSet()
    assert library.server_uuid() == SOURCE_UUID
    library.purge_to("binlog.000002")
    assert library.purged() == GtidSet.parse(f"{SOURCE_UUID}:1-5")
    with pytest.raises(ConfigError):
        library.purge_to("binlog.000001")


@pytest.mark.parametrize("mariadb", [False, True])
def test_rotation_makes_a_file_that_decodes(tmp_path, mariadb) -> None:
    maker = BinlogMaker(mariadb=mariadb)
    maker.transaction()
    library = BinlogLibrary([maker.save(tmp_path / "binlog.000009")])
    assert library.rotate() == "binlog.000010"
    library.append(b"".join(maker.transaction()))
    for file in library.files:
        decoder = BinlogDecoder(file=file.name)
        end = 4
        for position, header in file.headers():
            event = decoder.decode(file.read(position, header.event_size), position)
            end = event.end_position
        assert end == file.size
    executed = library.executed()
    if mariadb:
        assert executed == MariadbGtidSet.parse("0-11-2")
        assert library.files[1].previous == MariadbGtidSet.parse("0-11-1")
    else:
        assert executed == GtidSet.parse(f"{SOURCE_UUID}:1-2")
        assert library.files[1].previous == GtidSet.parse(f"{SOURCE_UUID}:1")
    assert (tmp_path / "binlog.000009").read_bytes() != b""


def test_a_directory_stands_for_its_binlogs(tmp_path) -> None:
    two_files(tmp_path)
    (tmp_path / "binlog.index").write_text("./binlog.000001\n")
    library = BinlogLibrary([tmp_path])
    assert len(library.files) == 2


@pytest.mark.parametrize("data", [b"", b"\xfebin", b"\xfd\x62\x69\x6e" + bytes(600), b"text" * 9])
def test_files_that_are_no_binlogs(tmp_path, data) -> None:
    path = tmp_path / "x.000001"
    path.write_bytes(data)
    with pytest.raises(BinlogFormatError, match=r"x\.000001"):
        BinlogLibrary([path])


def test_no_files_and_the_same_name_twice(tmp_path) -> None:
    with pytest.raises(ConfigError, match="at least one"):
        BinlogLibrary([])
    paths = two_files(tmp_path)
    with pytest.raises(ConfigError, match="same name"):
        BinlogLibrary([paths[0], paths[0]])


def test_reading_over_the_end_of_the_file_on_disk(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    data = path.read_bytes()
    file = ServedFile("binlog.000001", path)
    file.append(b"abcdef")
    assert file.read(len(data) - 2, 5) == data[-2:] + b"abc"
    assert file.read(len(data) + 4, 99) == b"ef"
    assert file.size == len(data) + 6


def test_files_grow_on_disk(tmp_path) -> None:
    maker = BinlogMaker()
    head = maker.data
    maker.transaction()
    path = tmp_path / "binlog.000001"
    path.write_bytes(head)
    library = BinlogLibrary([tmp_path])
    grown: list[bool] = []
    library.subscribe(lambda: grown.append(True))
    assert not library.refresh()
    assert not grown
    path.write_bytes(maker.data)
    assert library.executed() == GtidSet()
    assert library.refresh()
    assert grown
    assert library.executed() == GtidSet.parse(f"{SOURCE_UUID}:1")
    # A file whose head is not whole is looked at later.
    following = tmp_path / "binlog.000002"
    following.write_bytes(head[:50])
    assert not library.refresh()
    following.write_bytes(head)
    maker.transaction()
    path.write_bytes(maker.data)  # what comes to a file before the next one is seen with it
    assert library.refresh()
    assert [file.name for file in library.files] == ["binlog.000001", "binlog.000002"]
    assert library.files[0].size == len(maker.data)
    assert not library.refresh()


@pytest.mark.parametrize("mariadb", [False, True])
def test_nobody_begins_in_a_file_of_which_only_the_description_is_there(tmp_path, mariadb) -> None:
    # Its GTIDs come a moment later; a replica that began there would lack what stands in the files before.
    first = BinlogMaker(mariadb=mariadb)
    first.transaction()
    first.rotate("binlog.000002")
    first.save(tmp_path / "binlog.000001")
    library = BinlogLibrary([tmp_path])
    second = BinlogMaker(mariadb=mariadb, first=2)
    path = tmp_path / "binlog.000002"
    path.write_bytes(b"\xfebin" + second.events[0])
    assert library.refresh()
    have = MariadbGtidSet() if mariadb else GtidSet()
    order = DumpOrder(gtid_set=have)
    assert find_start(library, order)[0].name == "binlog.000001"
    second.transaction()
    path.write_bytes(second.data)
    assert library.refresh()
    assert library.files[1].previous is not None
    assert find_start(library, order)[0].name == "binlog.000001"
    executed = library.executed()
    assert str(executed) in ("0-11-2", f"{SOURCE_UUID}:1-2")
    everything = DumpOrder(gtid_set=executed)
    assert find_start(library, everything)[0].name == "binlog.000002"
