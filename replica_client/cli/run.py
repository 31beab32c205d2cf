"""``replica-client run``: the position-resume daemon."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from replica_client.cli.failures import FaultFoundError
from replica_client.cli.interruption import run_async
from replica_client.cli.output import Lines, message
from replica_client.cli.program import extra_module
from replica_client.cli.serving import serve

EXAMPLE = "replica-client run --example > a.toml; replica-client run a.toml"


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
        _check(found, connect)
    else:
        from replica_client.service.examples import unit_file

        command = shutil.which("replica-client") or sys.argv[0]
        sys.stdout.write(unit_file(found, Path(command).absolute()))


def _check(config: Any, connect: bool) -> None:
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
