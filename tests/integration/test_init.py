"""``replica-client init`` on real servers: what it writes runs as it is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.cli.init import (
    daemon_configuration,
    pattern_of,
    pipeline_configuration,
    without_password,
)
from replica_client.lake.config import load_config as read_pipeline
from replica_client.rows.selection import Selection
from replica_client.service.config_file import read_config
from tests import processes
from tests.servers.local import NAMES

every_server = pytest.mark.parametrize("name", NAMES)
ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
HOSTILE = "a.b`c'd\"é ${HOME} \\x"


def command(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "SOURCE_PASSWORD": "secret"}
    return processes.run(
        [sys.executable, "-m", "replica_client", *words],
        cwd=directory, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@every_server
def test_what_it_writes_runs(fresh_server, name: str, tmp_path: Path) -> None:
    server = fresh_server(name)
    url = server.url()
    server.execute("CREATE DATABASE shop")
    server.execute("GRANT SELECT ON *.* TO repl@'%'")
    server.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
    done = command(tmp_path, "init", url, "shop.toml")
    assert done.returncode == 0, done.stderr
    assert "export SOURCE_PASSWORD=" in done.stderr
    made = tmp_path / "shop.toml"
    assert stat.S_IMODE(made.stat().st_mode) & 0o027 == 0
    text = made.read_text()
    assert "secret" not in text.replace("/run/secrets/", "")
    assert 'tables = ["shop.*"]' in text
    done = command(tmp_path, "run", "shop.toml", "--check", "--connect")
    assert (done.returncode, done.stdout) == (0, "shop -> changes (file): ok\n"), done.stderr
    # Nothing is written over.
    done = command(tmp_path, "init", url, "shop.toml")
    assert (done.returncode, made.read_text()) == (2, text)
    assert len(done.stderr.splitlines()) == 1

    done = command(tmp_path, "init", url, "-", "--for", "pipeline", "--tables", "shop.o*")
    assert done.returncode == 0, done.stderr
    (tmp_path / "lake.toml").write_text(done.stdout)
    os.environ["SOURCE_PASSWORD"] = "secret"
    try:
        read_pipeline(tmp_path / "lake.toml")
    finally:
        del os.environ["SOURCE_PASSWORD"]


@every_server
def test_a_source_that_cannot_be_followed_is_reported_with_the_remedy(
    fresh_server, name: str, tmp_path: Path
) -> None:
    server = fresh_server(name)
    server.execute("CREATE USER nothing@'%' IDENTIFIED BY 'secret'")
    done = command(tmp_path, "init", server.url("nothing"))
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []
    assert "GRANT REPLICATION SLAVE ON *.* TO `nothing`@`%`;" in done.stderr.splitlines()
    assert "secret" not in done.stderr
    done = command(tmp_path, "doctor", server.url("nothing"))
    assert "GRANT REPLICATION SLAVE ON *.* TO `nothing`@`%`;" in done.stdout.splitlines()


@pytest.mark.parametrize("database", ["shop", "my.db", "a`b", "x*y?", HOSTILE, "größe", "a$1"])
def test_a_pattern_is_of_its_database(database: str) -> None:
    selection = Selection([pattern_of(database)])
    assert selection.wants(database, "orders")
    assert not selection.wants(f"{database}2", "orders")


@pytest.mark.parametrize("make", [daemon_configuration, pipeline_configuration])
def test_hostile_names_are_texts(make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", "secret")
    hosts = "db1,db2:3307" if make is daemon_configuration else "db1"
    made = make(f"mysql://us%22er:p%22w@{hosts}/?tls=required", [pattern_of(HOSTILE)], [])
    path = tmp_path / "it.toml"
    path.write_text(made.text)
    read = read_config if make is daemon_configuration else read_pipeline
    read(path)
    assert "p%22w" not in made.text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql://u:p@h/", ("mysql://u@h/", True)),
        ("mysql://u@h/?tls=required", ("mysql://u@h/?tls=required", False)),
        ("mariadb://u:a@b@h1,h2:1/", ("mariadb://u@h1,h2:1/", True)),
        ("mysql://h", ("mysql://h", False)),
        ("mysql://u:p:q@[::1]:3306/?socket=/a@b:c", ("mysql://u@[::1]:3306/?socket=/a@b:c", True)),
    ],
)
def test_a_password_leaves_the_url(url: str, shown: tuple[str, bool]) -> None:
    assert without_password(url) == shown


def test_a_password_among_the_options_is_refused() -> None:
    with pytest.raises(rc.ConfigError, match="option_file"):
        without_password("mysql://u@h/?tls_key_password=x")
