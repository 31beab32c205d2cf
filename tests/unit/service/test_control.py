"""Orders to a running service."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from replica_client import open_binlog
from replica_client.cli.app import run_words
from replica_client.errors import ColumnDecodeError, ConfigError, SinkError
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import change_to_json
from replica_client.service.order_socket import Control, ask
from replica_client.service.pages import pages_of
from tests.unit.service.conftest import DATA, running, until
from tests.unit.service.test_delivery import route


async def order(service, command, **more):
    given = {"command": command, **more}
    return await asyncio.to_thread(ask, service.config.state, given, 10)


async def test_what_is_paused_stays_so_until_it_is_resumed(configure, disk, wanted) -> None:
    one, path = disk(), configure()
    async with running(path) as service:
        await until(lambda: one.lines)
        answer = await order(service, "pause")
        assert [sink["state"] for sink in answer["sinks"]] == ["paused"]
        (audit,) = map(
            json.loads, (service.config.state / "control.jsonl").read_text().splitlines()
        )
        assert (audit["command"], audit["sinks"], audit["result"]) == (
            "pause",
            ["shop.one"],
            "done",
        )
        assert audit["by"] == f"user {os.getuid()}, process {os.getpid()}"
        pages = pages_of(service)
        assert json.loads(pages["/status.json"]().body)["orders"] == [audit]
        assert b'replica_client_orders_total{command="pause"} 1.0' in pages["/metrics"]().body
        kept = list(one.lines)
    async with running(path) as service:
        await until(lambda: str(route(service).observation.state) == "paused")
        assert one.lines == kept
        await order(service, "resume")
        await until(lambda: one.lines == wanted)
        await order(service, "restart")
        await until(lambda: str(route(service).observation.state) == "streaming")
    assert one.lines == wanted


async def test_a_table_that_an_operator_sets_aside(configure, disk, wanted) -> None:
    one = disk()
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted)
        await order(service, "set-aside", tables=["shop.orders"])
        await until(lambda: ("shop", "orders") in route(service).observation.set_aside)


async def test_reload_is_that_of_the_signal(configure, disk, wanted) -> None:
    one, path = disk(), configure()
    async with running(path) as service:
        await until(lambda: one.lines == wanted)
        good = path.read_text()
        path.write_text(good + "\nwrong = ")
        with pytest.raises(ConfigError, match="daemon.toml"):
            await order(service, "reload")
        path.write_text(good.replace("batch_seconds = 0.02", "batch_seconds = 0.5"))
        await order(service, "reload")
        assert route(service).config.sink.batch_seconds == 0.5


async def test_what_is_no_order_changes_nothing(configure, disk, wanted) -> None:
    one = disk()
    async with running(configure()) as service:
        path = service.config.state / "control.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

        def send(line: bytes) -> bytes:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10)
                connection.connect(str(path))
                connection.sendall(line)
                return connection.recv(1000)

        for line in (b"\n", b"[]\n", b"{}\n", b'{"command":"pause","sink":"x"}\n', b"\xff\n"):
            assert b"error" in await asyncio.to_thread(send, line)
        await until(lambda: one.lines == wanted)
        assert not service.control.counts


async def test_the_command(configure, disk, wanted, capsys) -> None:
    one, path = disk(), str(configure())
    with pytest.raises(ConfigError, match="is the service running"):
        ask(configure().parent / "state", {"command": "status"}, 1)
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted)
        for words, shown in (
            (["pause", path, "--sink", "one"], "shop.one  paused"),
            (["status", path, "--json"], '"state": "paused"'),
            (["resume", path], "shop.one"),
        ):
            capsys.readouterr()
            assert await asyncio.to_thread(run_words, ["service", *words]) == 0
            assert shown in capsys.readouterr().out
        for words in (["pause", path, "--sink", "two"], ["set-aside", path]):
            with pytest.raises(ConfigError, match="--sink|--table"):
                await asyncio.to_thread(run_words, ["service", *words])
        assert service.control.counts == {"pause": 1, "resume": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x",
        b"[]",
        b"[" * 60_000,
        b'{"command": "stop"}',
        b'{"command": "pause", "sink": []}',
    ],
    ids=lambda line: line[:20].decode(),
)
async def test_what_is_not_an_order_is_answered(tmp_path: Path, line: bytes) -> None:
    async def carry_out(*_: object) -> None:
        raise AssertionError("it was carried out")

    control = Control(tmp_path, carry_out, list)
    answer = await control.answer(line, "somebody")
    assert set(answer) == {"error"}
    assert not control.counts


def gtids_of(one: str) -> list[str]:
    """The GTIDs of the binlog's transactions that have rows of a table."""
    reader = open_binlog(sorted(DATA.glob("shop-bin.*")), tables=[one])
    return [found.gtid for found in reader.transactions() if found.rows]


def without(wanted: list[str], gtid: str) -> list[str]:
    return [line for line in wanted if json.loads(line)["gtid"] != gtid]


@pytest.mark.parametrize("holds", [True, False], ids=["sink-holds-position", "store"])
@pytest.mark.parametrize("fails", ["write", "rows", "killed"])
async def test_a_transaction_that_is_skipped_counts_as_a_loss(
    configure, disk, wanted, monkeypatch, holds, fails
) -> None:
    """Whatever stops the sink: the sink, or the rows; also where the process ends between order and commit."""
    monkeypatch.setattr("replica_client.service.route._FAILED_DELAY", 0.05)
    one, gtid = disk(holds=holds), gtids_of("shop.orders")[1]
    if fails in ("write", "killed"):

        def refuse(transaction: Any) -> None:
            if transaction.gtid == gtid and transaction.rows:
                raise SinkError("refused by the sink", retriable=False)

        one.before_write = refuse
    else:
        change_of = RowsOfEvent.__iter__

        def broken(self: Any) -> Any:
            if self.gtid == gtid:
                raise ColumnDecodeError("refused by the rows")
            return change_of(self)

        one.before_commit = lambda waiting: [broken(rows) for t in waiting for rows in t.rows]
    path = configure()
    if fails == "killed":
        # The order is on disk, and the process ends before the sink is open again.
        async with running(path) as service:
            await until(lambda: "refused" in route(service).observation.error)
            await order(service, "skip", transaction=gtid, sink="one")
            assert (await order(service, "status"))["sinks"][0]["skips"] in ([gtid], [])
    async with running(path) as service:
        seen = route(service).observation
        if fails != "killed":
            await until(lambda: "refused" in seen.error)
            await order(service, "skip", transaction=gtid, sink="one")
        await until(lambda: one.lines == without(wanted, gtid))
        await until(lambda: any(loss.kind == "skipped" for loss in seen.losses))
        await until(lambda: not seen.orders.skips)
        (loss,) = [loss for loss in seen.losses if loss.kind == "skipped"]
        assert (loss.database, loss.table, loss.events) == ("shop", "orders", 1)
        assert gtid in loss.reason
        metrics = pages_of(service)["/metrics"]().body
        assert b'kind="skipped"' in metrics
        await until(lambda: service.control.counts["skipped"] == 1)
    async with running(path) as service:
        seen = route(service).observation
        await until(lambda: str(seen.state) == "streaming")
        assert [one.events for one in seen.losses if one.kind == "skipped"] == [1]
        with pytest.raises(ConfigError, match="delivered already"):
            await order(service, "skip", transaction=gtid, sink="one")
    assert one.lines == without(wanted, gtid)
    audit = [
        json.loads(line)
        for line in (service.config.state / "control.jsonl").read_text().splitlines()
    ]
    assert [(one["command"], one.get("transaction") or one.get("what")) for one in audit] == [
        ("skip", gtid),
        ("skipped", gtid),
        ("skip", gtid),
    ]


@pytest.mark.parametrize("by", ["gtid", "position", "time", "end"])
async def test_a_sink_pauses_at_a_place(configure, disk, wanted, by) -> None:
    one, path = disk(), configure()
    one.write_delay = 0.02
    transactions = list(open_binlog(sorted(DATA.glob("shop-bin.*"))).transactions())
    stop = transactions[9] if by != "end" else transactions[-1]
    place = {
        "gtid": str(transactions[8].position.gtid_set),
        "position": f"{stop.start.file}:{stop.start.offset}",
        "time": stop.commit_time.isoformat(),
        "end": f"{stop.position.file}:{stop.position.offset}",
    }[by]
    kept = [
        change_to_json(change)
        for found in transactions
        for change in found.changes
        if by == "end"
        or (found.commit_us < stop.commit_us if by == "time" else found.start < stop.start)
    ]
    (path.parent / "state").mkdir()
    saved = {"paused": False, "pause_at": place, "skips": [], "cancelled": []}
    (path.parent / "state" / "shop.one.orders.json").write_text(json.dumps(saved))
    async with running(path) as service:
        await until(lambda: str(route(service).observation.state) == "paused")
        assert one.lines == kept
        answer = await order(service, "status")
        assert answer["sinks"][0]["pause_at"] == ""
    async with running(path) as service:
        await until(lambda: str(route(service).observation.state) == "paused")
        assert one.lines == kept
        await order(service, "resume")
        await until(lambda: one.lines == wanted)


async def test_what_is_no_place_or_transaction_is_refused(configure, disk, wanted) -> None:
    one = disk()
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted)
        for given, said in (
            ({"command": "pause", "at": "next week"}, "next week"),
            ({"command": "pause", "transaction": "0-1-7"}, "takes no transaction"),
            ({"command": "skip"}, "transaction is missing"),
            ({"command": "skip", "transaction": "x"}, "single transaction|x"),
            ({"command": "skip", "transaction": "0-1-7,1-1-7"}, "single transaction"),
            ({"command": "snapshot", "tables": ["orders"]}, "no DATABASE.TABLE"),
            ({"command": "snapshot", "tables": ["shop.orders"], "where": "id >"}, "expected|where"),
            ({"command": "resume", "tables": ["shop.orders"]}, "takes no tables"),
            ({"command": "pause", "sinks": ["shop.one"]}, "not an order"),
        ):
            with pytest.raises(ConfigError, match=said):
                await order(service, **given)
        assert str(route(service).observation.state) == "streaming"


async def test_copies_that_are_cancelled(configure, disk, wanted) -> None:
    one, path = disk(), configure()
    async with running(path) as service:
        await until(lambda: one.lines == wanted)
        await order(service, "pause")
        await order(service, "snapshot", tables=["shop.orders"], where="id = 1")
        (request,) = (service.config.state / "shop.one.snapshots").glob("*.json")
        assert json.loads(request.read_text())["filter"] == "id = 1"
        await order(service, "skip", transaction="8a94f357-aab4-11df-86ab-c80aa9429562:77")
        await order(service, "cancel", tables=["shop.other"])
        assert request.exists()
        assert (await order(service, "status"))["sinks"][0]["skips"]
        await order(service, "cancel")
        assert not request.exists()
        assert (await order(service, "status"))["sinks"][0]["skips"] == []


TOKEN = "0123456789abcdef0123456789abcdef"


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that vouches for itself, and its key."""
    certificate, key = directory / "tls.crt", directory / "tls.key"
    names = ["-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names]
    subprocess.run([*words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@pytest.mark.parametrize("tls", [False, True])
async def test_orders_by_http_need_the_token(
    configure, disk, wanted, tls, tmp_path, capsys, monkeypatch
) -> None:
    one = disk()
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    daemon = {"control_token": "file:token"}
    more = []
    if tls:
        certificate, key = make_certificate(tmp_path)
        daemon |= {"tls_certificate": str(certificate), "tls_key": str(key)}
        more = ["--ca", str(certificate)]
    async with running(configure(daemon=daemon)) as service:
        await until(lambda: one.lines == wanted and service.http is not None)
        url = service.http.url
        assert url.startswith("https:") == tls
        words = ["service", "pause", url, *more]
        with pytest.raises(ConfigError, match="--token-file"):
            await asyncio.to_thread(run_words, words)
        wrong = tmp_path / "wrong"
        wrong.write_text("no")
        for token, said in ((wrong, "give the token"), (tmp_path / "none", "none")):
            with pytest.raises(ConfigError, match=said):
                await asyncio.to_thread(run_words, [*words, "--token-file", str(token)])
        assert str(route(service).observation.state) == "streaming"
        assert not service.control.counts
        given = ["--token-file", str(tmp_path / "token")]
        assert await asyncio.to_thread(run_words, [*words, *given]) == 0
        assert "shop.one  paused" in capsys.readouterr().out
        assert service.control.recent[-1]["by"] == "the token, from 127.0.0.1"
        with pytest.raises(ConfigError, match="no such sink"):
            await asyncio.to_thread(run_words, [*words, "--sink", "nine", *given])
        if tls:
            with pytest.raises(ConfigError, match="certificate"):
                await asyncio.to_thread(run_words, ["service", "status", url, *given])
        # The token may be replaced while the service runs.
        (tmp_path / "token").write_text(TOKEN[::-1])
        monkeypatch.setenv("REPLICA_CLIENT_CONTROL_TOKEN", TOKEN[::-1])
        assert await asyncio.to_thread(run_words, ["service", "resume", url, *more]) == 0


async def test_a_service_without_a_token_takes_no_orders_by_http(
    configure, disk, wanted, monkeypatch
) -> None:
    one = disk()
    monkeypatch.setenv("REPLICA_CLIENT_CONTROL_TOKEN", TOKEN)
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted and service.http is not None)
        with pytest.raises(ConfigError, match="takes no orders"):
            await asyncio.to_thread(run_words, ["service", "pause", service.http.url])


async def test_a_signal_of_the_process_is_in_the_audit(configure, disk, wanted) -> None:
    one = disk()
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted)
        service.reload()
        await until(lambda: service.control.counts["reload"] == 1)
        assert service.control.recent[-1]["by"] == "SIGHUP"
