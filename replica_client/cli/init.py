"""``replica-client init``: a configuration to begin with, from a URL that was checked."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from replica_client.cli.configuration_text import (
    daemon_configuration,
    pattern_of,
    pipeline_configuration,
)
from replica_client.cli.failures import FaultFoundError
from replica_client.cli.flags import Tables
from replica_client.cli.interruption import run_async
from replica_client.cli.output import Lines, message
from replica_client.cli.sources import live_source
from replica_client.doctor.diagnosis import can_be_followed, diagnose
from replica_client.doctor.finding import Finding, Severity
from replica_client.doctor.remedies import to_copy
from replica_client.doctor.visible import visible_databases
from replica_client.errors import ConfigError

EXAMPLE = "replica-client init mysql://repl@db1/ shop.toml"


class Kind(StrEnum):
    """What the configuration is for."""

    RUN = "run"
    PIPELINE = "pipeline"


def init(
    url: Annotated[str, typer.Argument(metavar="URL", help="The source.")],
    config: Annotated[
        Path,
        typer.Argument(metavar="CONFIG.toml", help="The file to make; - for standard output."),
    ] = Path("replica-client.toml"),
    kind: Annotated[
        Kind,
        typer.Option("--for", help="replica-client run (the service), or the Spark pipeline."),
    ] = Kind.RUN,
    tables: Tables = None,
) -> None:
    """Write a commented configuration for a source, after asking it what doctor asks.

    A password in the URL is not written: the file takes it from an environment variable, which is named.
    Without --table it is about the databases that the account sees.
    What prevents following the source is printed, with lines to copy, and nothing is written.
    """
    if live_source([url]) is None:
        raise typer.BadParameter("give a mysql:// or mariadb:// URL", param_hint="URL")
    to_file = str(config) != "-"
    if to_file and config.exists():
        raise ConfigError(f"{config}: this file exists; name a new one, or remove it")
    findings: list[Finding] = []
    databases: list[str] = []

    async def look() -> None:
        findings.extend(await diagnose(url))
        databases.extend(await visible_databases(url))

    run_async(look())
    for finding in findings:
        if finding.severity in (Severity.PROBLEM, Severity.WARNING):
            message(f"{finding.severity}: {finding.check}: {finding.text}; {finding.remedy}")
    if not can_be_followed(findings):
        for line in to_copy(findings):
            message(line)
        raise FaultFoundError("this source cannot be followed yet: see above; nothing was written")
    make = daemon_configuration if kind is Kind.RUN else pipeline_configuration
    made = make(url, tables or [pattern_of(name) for name in databases], findings)
    if not to_file:
        lines = Lines()
        lines.data(made.text.rstrip("\n"))
        lines.flush()
        return
    descriptor = os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(made.text)
    message(f"{config} written")
    if made.variable:
        message(f"it takes the password from the environment: export {made.variable}=…")
    check = " --check --connect" if kind is Kind.RUN else ""
    message(f"then: replica-client {kind} {config}{check}")
