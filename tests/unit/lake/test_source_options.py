import os

import pytest

from replica_client.errors import ConfigError
from replica_client.lake.source_options import SourceOptions
from replica_client.protocol.position import Position

PATH = {"path": "/backup/binlog.000001"}
URL = {"url": "mysql://repl:hunter2@db1/"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({**PATH, "tabels": "a.b"}, ["'tabels'", "did you mean tables?"]),
        ({**PATH, "startPosition": "earliest"}, ["'startPosition'", "startingPosition?"]),
        ({**PATH, "zzz": "1"}, ["'zzz'", "known are"]),
        ({}, ["path", "url"]),
        ({**PATH, **URL}, ["not both"]),
        ({**PATH, "serverIdBase": "5"}, ["serverIdBase", "live source"]),
        ({**PATH, "table": "a.b", "tables": "a.*"}, ["either table", "or tables"]),
        ({**PATH, "table": "a"}, ["database.table"]),
        ({**PATH, "tables": "shop"}, ["no dot", "shop.*"]),
        ({**PATH, "maxBytesPerTrigger": "many"}, ["maxBytesPerTrigger", "'many'", "64m"]),
        ({**PATH, "maxRowsPerTrigger": "0"}, ["maxRowsPerTrigger"]),
        ({**PATH, "startingPosition": "yesterday"}, ["startingPosition", "'yesterday'"]),
        ({**PATH, "endingPosition": "earliest"}, ["endingPosition"]),
        ({**PATH, "keyFile": "/nonexistent/keys"}, ["keyFile", "/nonexistent/keys"]),
        ({**URL, "passwordEnv": "NO_SUCH_VARIABLE"}, ["passwordEnv", "NO_SUCH_VARIABLE"]),
        ({**URL, "heartbeatPeriod": "-1"}, ["heartbeatPeriod"]),
        ({"url": "postgres://u:hunter2@db1/"}, ["mysql://"]),
    ],
)
def test_wrong_option_names_itself(options, words):
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(options)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("option", "member", "off", "on"),
    [
        ("allowEmpty", "allow_empty", "false", "true"),
        ("json", "variant", "string", "variant"),
        ("onSchemaChange", "evolves", "error", "evolve"),
    ],
)
def test_options_of_two_values(option, member, off, on):
    assert getattr(SourceOptions.parse(PATH), member) is False
    assert getattr(SourceOptions.parse({**PATH, option: off}), member) is False
    assert getattr(SourceOptions.parse({**PATH, option: on}), member) is True
    with pytest.raises(ConfigError, match=f"{option} .*(?=.*{off})(?=.*{on})"):
        SourceOptions.parse({**PATH, option: "perhaps"})


def test_names_without_regard_to_case():
    options = SourceOptions.parse({"PATH": "/a.000001, /b/*", "maxbytespertrigger": "2k"})
    assert options.paths == ("/a.000001", "/b/*")
    assert options.max_bytes == 2048


def test_start_as_position():
    options = SourceOptions.parse({**PATH, "startingPosition": "binlog.000024:1472"})
    assert options.starting == Position("binlog.000024", 1472)


def test_password_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("REPL_PASSWORD", "from-env")
    secret = tmp_path / "secret"
    secret.write_text("from-file\n")
    for option, value, password in (
        ("password", "given", "given"),
        ("passwordEnv", "REPL_PASSWORD", "from-env"),
        ("passwordFile", os.fspath(secret), "from-file"),
    ):
        options = SourceOptions.parse({"url": "mysql://repl@db1/", option: value})
        assert options.connect is not None
        assert options.connect.password == password
        assert password not in repr(options)


def test_the_fingerprint_of_the_servers_certificate():
    fingerprint = f"sha256:{'ab' * 32}"
    options = SourceOptions.parse({**URL, "tlsFingerprint": fingerprint})
    assert options.connect is not None
    assert options.connect.tls.fingerprint == fingerprint
    with pytest.raises(ConfigError, match="tls_fingerprint must be"):
        SourceOptions.parse({**URL, "tlsFingerprint": "ab"})
    with pytest.raises(ConfigError, match="tlsFingerprint"):
        SourceOptions.parse({**PATH, "tlsFingerprint": fingerprint})


def test_secrets_are_not_shown():
    assert "hunter2" not in repr(SourceOptions.parse(URL))


def test_table_with_pattern_characters_is_taken_literally():
    selection = SourceOptions.parse({**PATH, "table": "a[1].b?"}).assembly().selection
    assert selection.wants("a[1]", "b?")
    assert not selection.wants("a1", "bx")


@pytest.mark.parametrize("more", [{"option.path": "a"}, {"owner": "me", "provider": "x"}])
def test_a_table_of_the_session_is_refused_when_it_is_made(more):
    """Spark gives its options twice then, and none of them when it is read."""
    with pytest.raises(ConfigError, match="CREATE TEMPORARY VIEW … USING `mysql-binlog`"):
        SourceOptions.parse({"path": "a", **more})


def test_columns_as_a_list():
    given = {"path": "a", "table": "d.t", "columns": '["a, b", "c"]'}
    assert SourceOptions.parse(given).columns == ("a, b", "c")
    with pytest.raises(ConfigError, match="option columns .*a list of names"):
        SourceOptions.parse({**given, "columns": "[1]"})


def test_counts_and_sizes_are_numbers():
    found = SourceOptions.parse(
        {**PATH, "maxRowsPerTrigger": "1000", "maxBytesPerTrigger": "64m", "partitionSize": "2m"}
    )
    assert (found.max_rows, found.max_bytes, found.partition_size) == (1000, 64 << 20, 2 << 20)
    assert SourceOptions.parse({**URL, "serverIdBase": "7000"}).server_id_base == 7000
    plain = SourceOptions.parse(PATH)
    assert (plain.max_rows, plain.max_bytes, plain.server_id_base) == (None, None, None)
