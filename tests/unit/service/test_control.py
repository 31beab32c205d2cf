"""Orders to a running service."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from pathlib import Path

import pytest

from replica_client.cli.app import run_words
from replica_client.errors import ConfigError
from replica_client.service.order_socket import Control, ask
from replica_client.service.pages import pages_of
from tests.unit.service.conftest import running, until
from tests.unit.service.test_delivery import route


async def order(service, command, **more):
    names = [one.name for one in service.routes]
    given = {"command": command, "sinks": names, **more}
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
        await order(service, "set-aside", tables=[["shop", "orders"]])
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

        for line in (b"\n", b"[]\n", b"{}\n", b'{"command":"pause","sinks":["x"]}\n', b"\xff\n"):
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
        b'{"command": "pause", "sinks": [[]]}',
    ],
    ids=lambda line: line[:20].decode(),
)
async def test_what_is_not_an_order_is_answered(tmp_path: Path, line: bytes) -> None:
    async def carry_out(*_: object) -> None:
        raise AssertionError("it was carried out")

    control = Control(tmp_path, carry_out, list)
    assert await control._answer(line, "somebody") == {
        "error": "this is not an order that this service knows"
    }
