"""``replica-client run`` and ``relay``: the position-resume daemon, and a relay of a source to replicas."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from replica_client.cli.interruption import SIGNALS, heard, run_async
from replica_client.cli.output import Lines, message
from replica_client.cli.program import FaultFoundError, extra_module
from replica_client.errors import ConfigError


def run(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG.toml", help="Sources, and where their changes go."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say whether the configuration is right, and end.")
    ] = False,
    connect: Annotated[
        bool, typer.Option("--connect", help="With --check: ask the sources and sinks too.")
    ] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print a configuration with every key, and end.")
    ] = False,
    systemd_unit: Annotated[
        bool, typer.Option("--systemd-unit", help="Print a systemd unit for this, and end.")
    ] = False,
) -> None:
    """Follow sources and deliver their changes to sinks, for months.

    Each sink has its own position, and goes on where it was after any stop, crash or kill. SIGTERM
    finishes what was begun and ends with status 0; SIGHUP reads the configuration again. A status
    page, Prometheus metrics and health checks are at the address in the configuration.
    """
    if example:
        from replica_client.service.examples import EXAMPLE as TEXT

        sys.stdout.write(TEXT)
        return
    if config is None:
        raise typer.BadParameter("give the configuration file", param_hint="CONFIG.toml")
    if not check and not systemd_unit:
        serve(config)
        return
    found = extra_module("replica_client.service.config_file", "daemon").read_config(config)
    if check:
        _check_config(found, connect)
    else:
        from replica_client.service.examples import unit_file

        # That of the environment that runs now; the first on PATH may be another version, __main__.py no program.
        mine = Path(sys.executable).with_name("replica-client")
        command = mine if mine.exists() else shutil.which("replica-client") or sys.argv[0]
        sys.stdout.write(unit_file(found, Path(command).absolute()))


def _check_config(config: Any, connect: bool) -> None:
    from replica_client.service import checking

    os.chdir(config.directory)
    faults = checking.check(config)
    if connect and not faults:

        async def ask() -> None:
            faults.extend(await checking.check_connected(config))

        run_async(ask())
    for fault in faults:
        message(f"{fault.where}: {fault.what}")
    if faults:
        raise FaultFoundError(f"{config.file}: {len(faults)} found; see above")
    for route in config.routes:
        Lines().line(f"{route.source.name} -> {route.sink.name} ({route.sink.type}): ok")


def serve(path: Path) -> None:
    """Run the daemon of a configuration file until a signal ends it.

    Raises:
        ConfigError: the configuration is wrong, or the daemon cannot run so.
        OSError: the file cannot be read.
    """
    config = extra_module("replica_client.service.config_file", "daemon").read_config(path)
    service_module = extra_module("replica_client.service.service", "daemon")
    from replica_client.service import checking, process as logs

    # Sinks take relative paths as relative to the configuration.
    os.chdir(config.directory)
    faults = checking.check(config)
    if faults:
        raise ConfigError(f"{config.file}: {faults[0].where}: {faults[0].what}")
    logs.set_up(config.daemon.log_level, config.daemon.log_format)

    async def run() -> None:
        service = service_module.Service(config)
        with heard({**dict.fromkeys(SIGNALS, service.stop), signal.SIGHUP: service.reload}):
            await service.run()

    asyncio.run(run())


_SWITCH_SECONDS = 0.001


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
    and offset or by GTIDs. While the source is unavailable, they read what the relay has. With several hosts it
    follows the one that replaced the source. SIGTERM ends it with status 0. SIGHUP reads accounts and the source's URL
    again. The configuration has the address of the status page, Prometheus metrics and health checks.
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
        _run_relay(found, made)
        return
    if connect:
        run_async(_ask_hosts(found))
    Lines().line(f"{found.file}: ok")


async def _ask_hosts(config: Any) -> None:
    from replica_client.service.source_access import hosts_of
    from replica_client.stream.transport.connection import SourceConnection

    for host in hosts_of(config.source, config.directory):
        async with await SourceConnection.open(host) as connection:
            status = await connection.binlog_status()
            server = connection.server
        Lines().line(
            f"{host.address}: {server.flavor} {server.version_text}, {status.file}:{status.position}"
        )


def _run_relay(config: Any, made: Any) -> None:
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
