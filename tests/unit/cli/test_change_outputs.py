"""``changes``: limits, files, colours and bars, and the positions that go with them."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.cli.output import coloured

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq


def test_runs_with_a_limit_go_on_where_they_ended(run, shop, tmp_path):
    whole = run("changes", "--json", *shop).lines
    for step in (1, 7, 86, 87, 200):
        position, found = tmp_path / f"{step}.position", []
        for _ in range(len(whole) + 2):
            result = run("changes", "--json", "--limit", step, "--position-file", position, *shop)
            assert (result.status, result.err) == (0, "")
            found.append(result.lines)
            if not result.lines:
                break
        assert [line for lines in found for line in lines] == whole
        assert all(len(lines) == step for lines in found[:-2])


def test_limit_and_where_together(run, shop):
    every = run("changes", "--json", "--tables", "shop.orders", "--where", "id > 3", *shop).lines
    some = run(
        "changes", "--json", "--tables", "shop.orders", "--where", "id > 3", "--limit", 2, *shop
    ).lines
    assert some == every[:2]
    assert all(
        (json.loads(line)["after"] or json.loads(line)["before"])["id"] > 3 for line in every
    )


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_file_is_whole_before_its_position_is_saved(run, shop, tmp_path, form):
    position = tmp_path / "shop.position"
    words = ("--tables", "shop.orders", "--position-file", position, *shop)
    rows, runs = 0, 0
    while True:
        target = tmp_path / f"{runs}.{form}"
        result = run("changes", f"--{form}", target, "--limit", 7, *words)
        assert result.status == 0, result.err
        assert not list(tmp_path.glob("*.part"))
        if not target.exists():
            assert "there are no changes" in result.err
            break
        table = (
            pq.read_table(target)
            if form == "parquet"
            else pa.ipc.open_stream(target.read_bytes()).read_all()
        )
        rows += sum(kind != "update_preimage" for kind in table["_change_type"].to_pylist())
        runs += 1
    assert rows == sum(1 for _ in rc.open_binlog(shop, tables="shop.orders").changes())
    assert runs == -(-rows // 7)


def test_another_table_ends_a_file_before_its_transaction(run, shop, tmp_path):
    position, target = tmp_path / "shop.position", tmp_path / "one.parquet"
    result = run("changes", "--parquet", target, "--position-file", position, *shop)
    assert result.status == 2
    assert (
        "holds one table, shop.customers, and here is shop.products" in result.err.splitlines()[-1]
    )
    first = pq.read_table(target)
    rest = run("changes", "--json", "--position-file", position, *shop).lines
    assert first.num_rows + len(rest) == 87
    assert json.loads(rest[0])["table"] == "products"


def test_a_fault_in_a_transaction_leaves_neither_file_nor_position(run, shop, tmp_path):
    position, target = tmp_path / "shop.position", tmp_path / "one.parquet"
    words = ("--tables", "shop.orders", "--where", "quantity = 1 OR colour = 'red'")
    result = run("changes", "--parquet", target, "--position-file", position, *words, *shop)
    assert result.status == 2
    assert "no column 'colour'" in result.err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept(run, shop, tmp_path):
    target = tmp_path / "one.parquet"
    target.write_text("mine")
    result = run("changes", "--parquet", target, "--tables", "shop.orders", *shop)
    assert (result.status, target.read_text()) == (2, "mine")
    assert "this file exists" in result.err


@pytest.mark.parametrize(
    ("words", "stated"),
    [
        (["--csv", "--json"], "give one of --json and --csv"),
        (["--csv", "--arrow", "x"], "give one of --csv and --arrow"),
        (["--parquet", "-"], "a Parquet file needs a name"),
        (["--limit", "0"], "--limit"),
        (["--where", "id ="], "where: character 5"),
        (["--csv"], "CSV holds one table"),
    ],
)
def test_wrong_usage_is_one_line(run, shop, words, stated):
    result = run("changes", *words, *shop)
    assert result.status == 2
    assert stated in result.err
    assert len(result.err.splitlines()) == 1


def test_colours_are_for_terminals_that_want_them():
    class Stream:
        def __init__(self, terminal):
            self.isatty = lambda: terminal

    assert coloured(Stream(True), {"TERM": "xterm"})
    for terminal, environment in (
        (False, {"TERM": "xterm"}),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}),
        (True, {"TERM": "dumb"}),
        (True, {}),
    ):
        assert not coloured(Stream(terminal), environment)


def on_terminal(shop, *words, stdout=None, **environment):
    """What a run writes to a terminal: both streams, or standard error alone."""
    ours, theirs = pty.openpty()
    plain = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "TERM": "xterm",
        "REPLICA_CLIENT_IMPL": "compiled" if rc.compiled() else "python",
        **environment,
    }
    command = [sys.executable, "-m", "replica_client", "changes", *words, *shop]
    process = subprocess.Popen(
        command, stdout=stdout or theirs, stderr=theirs, stdin=theirs, env=plain
    )
    os.close(theirs)
    found = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        found += data
    assert process.wait() == 0, found
    os.close(ours)
    return found.decode()


def test_a_terminal_has_colours_and_no_bar_among_the_lines(shop):
    shown = on_terminal(shop)
    assert "\x1b[32m" in shown
    assert "\x1b[33m" in shown
    assert "reading" not in shown
    assert "\x1b[" not in on_terminal(shop, NO_COLOR="1")
    assert "\x1b[" not in on_terminal(shop, "--json")
    coloured_lines = re.sub(r"\x1b\[[0-9]*m", "", shown).splitlines()[1:]
    assert coloured_lines == on_terminal(shop, NO_COLOR="1").splitlines()[1:]


def test_a_bar_is_shown_while_lines_go_elsewhere(shop, tmp_path: Path):
    with (tmp_path / "out").open("wb") as out:
        shown = on_terminal(shop, "--json", stdout=out)
    assert "shop-bin.00000" in shown
    assert len((tmp_path / "out").read_bytes().splitlines()) == 87


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_terminal_gets_no_line_that_is_wider_than_it(shop, width):
    shown = on_terminal(shop, NO_COLOR="1", COLUMNS=str(width))
    wide = "".join(on_terminal(shop, NO_COLOR="1", COLUMNS="100000").splitlines())
    for line in shown.splitlines():
        columns = sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in line)
        assert columns <= width, line
    assert "…" in shown
    assert "…" not in wide


def test_nothing_pads_a_pipe(shop, capsys):
    from replica_client.cli.main import main

    for command in ("changes", "events"):
        assert main([command, *shop]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > 80
        assert not any("   " in line.split("=")[0] for line in lines)
