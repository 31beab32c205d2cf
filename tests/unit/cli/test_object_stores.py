"""Binlog files and positions in an object store are what they are in a directory."""

from pathlib import Path

import pyarrow as pa
import pytest

import replica_client as rc
from replica_client.archive.backup.engine import Backup
from replica_client.errors import ConfigError, PositionStoreError, StorageError
from replica_client.lake.source.file_catalog import IndexStore
from replica_client.service.config_file import read_config
from replica_client.service.stores import Stores
from replica_client.sinks.registry import make_sink
from replica_client.storage.location import ObjectUrl
from replica_client.storage.object_store import ObjectStore
from replica_client.stream.position.stores.object import ObjectPositionStore, position_file
from replica_client.stream.position.stores.sql_table import SqlitePositionStore
from tests.integration.position_stores import StoreConformance


@pytest.fixture
def stored(bucket, shop):
    """The shop's files in a store, with what a backup puts beside them."""
    store = ObjectStore(f"{bucket}/backup")
    for path in shop:
        store.put(Path(path).name, Path(path).read_bytes())
    store.put("backup.json", b"{}")
    return f"{bucket}/backup"


@pytest.mark.parametrize("command", ["changes", "events", "check"])
def test_commands(run, shop, stored, command):
    wanted = run(command, *shop, "--json")
    assert wanted.status == 0
    for sources in (
        [stored],
        [f"{stored}/shop-bin.*"],
        [f"{stored}/{Path(path).name}" for path in shop],
    ):
        assert run(command, *sources, "--json") == wanted
    s3a = stored.replace("s3:", "s3a:")
    assert (
        run(command, s3a, "--json", *(["--tables", "*.*"] if command == "changes" else []))
        == wanted
    )


def test_readers(shop, stored):
    wanted = [str(transaction.position) for transaction in rc.open_binlog(shop).transactions()]
    reader = rc.open_binlog(stored, memory_map=True)
    assert [str(transaction.position) for transaction in reader.transactions()] == wanted
    begin = rc.Position.parse(wanted[3])
    reader = rc.open_binlog(stored, start=begin)
    assert [str(transaction.position) for transaction in reader.transactions()] == wanted[4:]
    tables = [pa.table(rc.scan_binlog(source)["shop.orders"]) for source in (shop, stored)]
    assert tables[0] == tables[1] and tables[0].num_rows


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "no such file"),
        ("backup/other.*", "no binlog file (name.NNNNNN) matches"),
        ("backup/backup.json/x", "no such file"),
    ],
)
def test_nothing_there(run, stored, name, words):
    result = run("changes", f"{stored.rpartition('/')[0]}/{name}")
    assert (result.status, result.out) == (2, "")
    assert words in result.err and len(result.err.splitlines()) == 1


def test_positions_go_on(run, shop, stored):
    position = f"{stored}/shop.position"
    wanted = run("changes", *shop).lines
    first = run("changes", stored, "--position-file", position, "--limit", "10")
    rest = run("changes", stored, "--position-file", position)
    assert (first.status, rest.status) == (0, 0)
    assert first.lines + rest.lines[1:] == wanted  # less the second heading
    assert run("changes", stored, "--position-file", position).lines[1:] == []
    assert "shop-bin" in run("position", "show", position).out
    assert "shop" in run("position", "show", stored).out


class TestObject(StoreConformance):
    @pytest.fixture
    def make(self, bucket):
        return lambda name="a": ObjectPositionStore(ObjectUrl.parse(f"{bucket}/{name}"))

    def damage(self, store):
        ObjectStore(store.path).put("", b'{"format": "replica-client-position"')


def test_two_that_save_in_one_position(bucket):
    one, other = (position_file(f"{bucket}/a") for _ in range(2))
    position = rc.Position("binlog.000001", 4)
    one.save(position)
    other.load()
    other.save(position)  # the same position, but not the same consumer
    for _ in range(2):
        with pytest.raises(PositionStoreError, match="written or deleted by another process"):
            one.save(rc.Position("binlog.000001", 100))
    assert other.load() == position


def test_a_store_that_ignores_conditions(make_bucket):
    store = position_file(f"{make_bucket('careless')}/a")
    assert store.load() is None
    with pytest.raises(PositionStoreError, match="ignores If-None-Match"):
        store.save(rc.Position("binlog.000001", 4))


@pytest.mark.parametrize("scheme", ["s3", "hdfs"])
@pytest.mark.parametrize(
    "command",
    [
        ("backup", "mysql://u@127.0.0.1:1/", "{url}"),
        ("serve", "{url}"),
        ("changes", "{shop}", "--parquet", "{url}"),
        ("changes", "{shop}", "--arrow", "{url}"),
    ],
    ids=" ".join,
)
def test_what_is_local_refuses_a_url(run, shop, scheme, command, tmp_path, monkeypatch):
    """Such a URL was the name of a directory once, and what was written there was lost."""
    monkeypatch.chdir(tmp_path)
    url = f"{scheme}://bucket/a"
    result = run(*[word.format(url=url, shop=shop[0]) for word in command])
    assert result.status == 2
    assert f"{scheme}:// is not supported here; give a local path" in result.err
    assert len(result.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda url: SqlitePositionStore(url, "a"),
        lambda url: rc.FilePositionStore(url),
        lambda url: Backup("mysql://u@h/", url),
        lambda url: make_sink("parquet", {"path": url}),
        lambda url: make_sink("file", {"path": url}),
        lambda url: make_sink("sqlite", {"path": url}),
        lambda url: IndexStore(url),
    ],
)
def test_what_is_local_refuses_a_url_in_python(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for scheme in ("s3", "gs", "abfss", "hdfs"):
        with pytest.raises(ConfigError, match=f"{scheme}:// is not supported here"):
            make(f"{scheme}://bucket/a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[daemon]\nstate = "s3://b/a"', "daemon.state"),
        ('[store]\ntype = "sqlite"\npath = "s3://b/a"', "store.path"),
    ],
)
def test_what_is_local_in_a_configuration(text, where, tmp_path, monkeypatch):
    file = tmp_path / "a.toml"
    source = '[[source]]\nname = "a"\nurl = "mysql://u@h/"\n[[source.sink]]\ntype = "stdout"\n'
    file.write_text(f"{text}\n{source}")
    with pytest.raises(ConfigError, match=f"{where}: s3:// is not supported here"):
        Stores(read_config(file)).store("a")


def test_a_path_of_a_url(tmp_path):
    with pytest.raises(ConfigError, match="given as text"):
        rc.FilePositionStore(Path("s3://bucket/a"))
    assert StorageError.__mro__[1] is rc.ReplicaClientError
