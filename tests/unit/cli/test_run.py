"""`run` and `position` on the command line."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replica_client.cli.run import serve
from replica_client.protocol.position import Position
from replica_client.service import process as logs
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.position.stores.sql_table import SqlitePositionStore

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
CONFIG = """\
[daemon]
listen = ""
[[source]]
name = "shop"
url = "mysql://repl@127.0.0.1:1/"
[[source.sink]]
name = "lines"
type = "file"
path = "lines"
[[source.sink]]
name = "out"
type = "stdout"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shop.toml"
    path.write_text(CONFIG)
    return path


def test_the_example_passes_its_own_check(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shop.toml"
    path.write_text(run("run", "--example").out)
    result = run("run", path, "--check")
    assert (result.status, result.out) == (0, "shop -> lines (file): ok\n")


@pytest.mark.parametrize(
    ("old", "new", "status", "text"),
    [
        ('path = "lines"', 'pth = "lines"', 1, "sink shop.lines: sink file"),
        ('type = "file"', 'type = "fil"', 1, "no sink is of the type 'fil'"),
        ("mysql://repl@127", "mysql://${NOBODY_SET_THIS}@127", 1, "NOBODY_SET_THIS is not set"),
        ("mysql://", "mysq://", 1, "begins with mysql://"),
        ('listen = ""', 'listen = "x"', 1, "daemon: listen: 'x' is not an address"),
        ("[daemon]", "[demon]", 2, "shop.toml, line 1: demon: no such key; did you mean 'daemon'?"),
    ],
)
def test_check_says_what_is_wrong(run, config, old, new, status, text):
    config.write_text(CONFIG.replace(old, new))
    result = run("run", config, "--check")
    assert result.status == status
    assert text in result.err


def test_check_with_connect_asks_the_source(run, config):
    result = run("run", config, "--check", "--connect")
    assert result.status == 1
    assert "source shop: no connection to 127.0.0.1:1" in result.err


def test_the_unit_file(run, config):
    result = run("run", config, "--systemd-unit")
    assert result.status == 0
    assert f"run {config}\n" in result.out


def test_no_configuration_is_wrong_usage(run):
    assert run("run").status == 2


def test_a_signal_ends_it_with_status_0_and_a_second_daemon_is_refused(config):
    command = [sys.executable, "-m", "replica_client", "run", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        lock = config.parent / "state" / "daemon.lock"
        deadline = time.monotonic() + 60
        while not (config.parent / "lines" / ".lock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert lock.exists()
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 2
        assert "another daemon uses it" in second.stderr
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize("words", [(), ("--",)])
@pytest.mark.slow
def test_a_signal_in_the_first_seconds_ends_it_with_status_0(config, words):
    command = [sys.executable, "-m", "replica_client", "run", *words, str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        # As long as this machine takes now until the daemon asks its source.
        began = time.monotonic()
        while "the next try" not in process.stderr.readline():
            assert process.poll() is None
        start = time.monotonic() - began
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    statuses = []
    for part in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(start * part)
            process.send_signal(signal.SIGTERM)
            statuses.append((part, process.wait(60)))
            assert "Traceback" not in process.stderr.read()
    # A signal before Python runs our first line ends it as a signal does.
    ours = [(part, status) for part, status in statuses if status != -signal.SIGTERM]
    assert len(ours) >= 5, statuses
    assert all(status == 0 for _, status in ours), statuses


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_at_each_turn_of_its_loop_ends_it(config, number, monkeypatch):
    """The first of them come before what is asked to stop has begun."""
    select = selectors.DefaultSelector.select
    turns = 0

    def selecting(selector, timeout=None):
        nonlocal turns
        turns += 1
        if turns == wanted:
            signal.raise_signal(number)
        return select(selector, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", selecting)
    monkeypatch.setattr(logs, "set_up", lambda level, layout: None)  # for good
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        for wanted in range(2, 20):
            turns, began = 0, time.monotonic()
            serve(config)
            assert time.monotonic() - began < 20, wanted  # stop_timeout
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


STORES = ["file", "sqlite", "route"]


@pytest.fixture(params=STORES)
def store(request, config, tmp_path):
    if request.param == "file":
        return str(tmp_path / "a.position")
    if request.param == "sqlite":
        store = SqlitePositionStore(tmp_path / "p.sqlite", "other")
        store.save(Position("x.1", 4))
        store.close()
        return f"{tmp_path / 'p.sqlite'}#a"
    return f"{config}#shop.lines"


def test_set_show_and_diff(run, store, tmp_path):
    result = run("position", "set", store, f"binlog.000024:1472@{UUID}:1-77")
    assert result.status == 0, result.err
    assert f"none -> binlog.000024:1472@{UUID}:1-77" in result.out
    (shown,) = run("position", "show", store, "--json").records
    assert shown["text"] == f"binlog.000024:1472@{UUID}:1-77"
    assert Position.from_json(shown["position"]) == Position.parse(shown["text"])
    FilePositionStore(tmp_path / "other").save(Position.parse(f"binlog.000024:1500@{UUID}:1-70:80"))
    result = run("position", "diff", store, tmp_path / "other", "--json")
    assert result.status == 1
    assert result.records[0]["only_first"] == f"{UUID}:71-77"
    assert result.records[0]["only_second"] == f"{UUID}:80"
    assert result.records[0]["bytes_ahead"] == 28
    assert run("position", "diff", store, store).status == 0


def test_set_drops_the_state_unless_reported_otherwise(run, tmp_path):
    store = FilePositionStore(tmp_path / "a")
    store.save(Position("b.1", 4), {"schema_history": {}})
    run("position", "set", store.path, "b.1:100", "--keep-state")
    assert store.load_checkpoint().state == {"schema_history": {}}
    run("position", "set", store.path, "b.1:200")
    assert store.load_checkpoint().state == {}
    assert store.load() == Position("b.1", 200)


def test_a_directory_and_a_configuration_show_all(run, config, tmp_path):
    FilePositionStore(tmp_path / "one.position").save(Position("b.1", 4))
    FilePositionStore(tmp_path / "two.position").save(Position("b.2", 5))
    shown = run("position", "show", tmp_path, "--json").records
    assert [(one["name"], one["text"]) for one in shown] == [("one", "b.1:4"), ("two", "b.2:5")]
    run("position", "set", f"{config}#shop.out", "b.3:6")
    shown = run("position", "show", config, "--json").records
    assert [(one["name"], one["text"]) for one in shown] == [
        ("shop.lines", None),
        ("shop.out", "b.3:6"),
    ]
    assert (tmp_path / "state" / "shop.out.position").exists()
    assert json.loads((tmp_path / "state" / "shop.out.position").read_text())["text"] == "b.3:6"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["show", "none.sqlite#a"], "there is no such SQLite database"),
        (["show", "mysql://repl@db1/"], "mysql://user@host/DATABASE#NAME"),
        (["show", "shop.toml#shop.none"], "no sink is 'shop.none'; there are shop.lines, shop.out"),
        (["set", "shop.toml", "b.1:4"], "name one of shop.lines, shop.out"),
        (["set", "a", "earliest"], "is not a position; give FILE:OFFSET, a GTID set, or both"),
        (["set", "a", "b.1:4/3"], "inside a transaction"),
        (["diff", "a", "b"], "no position is saved there"),
    ],
)
def test_what_is_refused(run, config, arguments, text):
    result = run("position", *arguments)
    assert result.status in (1, 2)
    assert text in result.err
