"""Values that stand elsewhere."""

from __future__ import annotations

import pytest

from replica_client.errors import ConfigError
from replica_client.service.external_values import resolve, resolved


def test_variables(tmp_path):
    environment = {"A": "p@ss/w#rd", "HOST": "db1:3307,db2"}
    assert resolve("password", "${A}", tmp_path, environment) == "p@ss/w#rd"
    assert resolve("x", "a ${B:-b} c", tmp_path, environment) == "a b c"
    assert resolve("x", "${B:-}", tmp_path, environment) == ""
    url = resolve("url", "mysql://u:${A}@${HOST}/", tmp_path, environment)
    assert url == "mysql://u:p%40ss%2Fw%23rd@db1:3307,db2/"
    with pytest.raises(ConfigError, match="x: the environment variable B is not set"):
        resolve("x", "${B}", tmp_path, environment)


def test_files(tmp_path):
    (tmp_path / "secret").write_bytes(b"h\xc3\xa4\n")
    assert resolve("password", "file:secret", tmp_path, {}) == "hä"
    assert resolve("password", f"file:{tmp_path}/secret", tmp_path, {}) == "hä"
    assert resolve("path", "file:secret", tmp_path, {}) == "file:secret"
    with pytest.raises(ConfigError, match="No such file"):
        resolve("password", "file:none", tmp_path, {})
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        resolve("password", "file:bytes", tmp_path, {})
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        resolve("password", "file:large", tmp_path, {})


def test_whole_tables(tmp_path, monkeypatch):
    monkeypatch.setenv("ONE", "1")
    table = {"a": "${ONE}", "b": ["${ONE}", 2], "c": {"d": "${ONE}"}, "e": True}
    assert resolved(table, tmp_path) == {"a": "1", "b": ["1", 2], "c": {"d": "1"}, "e": True}
