"""``replica-client relay``: reads a source once, and serves it to replicas."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from replica_client.cli.interruption import SIGNALS, heard, run_async
from replica_client.cli.output import Lines
from replica_client.cli.program import extra_module

_SWITCH_SECONDS = 0.001

EXAMPLE = "replica-client relay --example > relay.toml; replica-client relay relay.toml"


def relay(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG.toml", help="The source, and who may connect."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say whether the configuration is right, and end.")
    ] = False,
    connect: Annotated[
        bool, typer.Option("--connect", help="With --check: ask the source too.")
    ] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print a configuration with every key, and end.")
    ] = False,
) -> None:
    """Follow a source and serve its binlog to replicas and other clients.

    The relay keeps the source's files byte for byte. Replicas connect to it as to the source, by file
    and offset or by GTIDs, and go on when the source is away. With several hosts it follows the one that took the
    source's place. SIGTERM ends it with status 0;
    SIGHUP reads accounts and the source's URL again. A status page, Prometheus metrics and health checks are at the
    address in the configuration.
    """
    if example:
        from replica_client.service.examples import RELAY_EXAMPLE as TEXT

        sys.stdout.write(TEXT)
        return
    if config is None:
        raise typer.BadParameter("give the configuration file", param_hint="CONFIG.toml")
    files = extra_module("replica_client.service.relay_config_file", "daemon")
    found = files.read_relay_config(config)
    made = files.make_relay(found)
    if not check:
        _run(found, made)
        return
    if connect:
        run_async(_ask(found))
    Lines().line(f"{found.file}: ok")


async def _ask(config: Any) -> None:
    from replica_client.service.source_access import hosts_of
    from replica_client.stream.transport.connection import SourceConnection

    for host in hosts_of(config.source, config.directory):
        async with await SourceConnection.open(host) as connection:
            status = await connection.binlog_status()
            server = connection.server
        Lines().line(
            f"{host.address}: {server.flavor} {server.version_text}, {status.file}:{status.position}"
        )


def _run(config: Any, made: Any) -> None:
    from replica_client.server.budget import return_large_blocks
    from replica_client.service import process as logs
    from replica_client.service.pages import relay_pages
    from replica_client.service.relay_config_file import reload
    from replica_client.stream.pages.http_server import HttpServer

    # Statements of clients are worked on in a thread: the event loop is to have its turn soon.
    sys.setswitchinterval(_SWITCH_SECONDS)
    return_large_blocks()
    path = config.file.absolute()
    os.chdir(config.directory)
    logs.set_up(config.relay.log_level, config.relay.log_format)

    async def run() -> None:
        working = asyncio.ensure_future(made.run())
        again = {signal.SIGHUP: lambda: reload(made, path)}
        with heard({**dict.fromkeys(SIGNALS, working.cancel), **again}):
            relay = config.relay
            http = None
            if relay.status:
                pages = relay_pages(made)
                http = HttpServer(relay.status, pages, "status in [relay]", relay.hosts)
            if http is not None:
                await http.start()
            try:
                await working
            except asyncio.CancelledError:
                pass
            finally:
                if http is not None:
                    await http.close()

    asyncio.run(run())
