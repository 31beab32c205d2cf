"""``replica-client init``: a configuration to begin with, from a URL that was checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from replica_client.cli.flags import Tables
from replica_client.cli.interruption import run_async
from replica_client.cli.output import Lines, message
from replica_client.cli.program import FaultFoundError, secrets_in
from replica_client.cli.sources import live_source
from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.service.doctor.source_facts import Finding, Severity, to_copy, visible_databases
from replica_client.service.doctor.standing import can_be_followed, diagnose
from replica_client.stream.transport.connect_options import split_hosts

PASSWORD: Final = "SOURCE_PASSWORD"  # noqa: S105  # its name
"""The environment variable that the password goes to."""
_PLAIN: Final = re.compile(r"[\w$-]+")
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration.

    Attributes:
        text: of the file.
        variable: of the environment, that it takes the password from; empty where it needs none.
    """

    text: str
    variable: str


def daemon_configuration(
    url: str, tables: Sequence[str], findings: Iterable[Finding]
) -> Configuration:
    """Return a configuration of ``replica-client run``: changes as JSON Lines in a directory.

    Raises:
        ConfigError: the URL has a password among its options.
    """
    shown, has_password = without_password(url)
    password = f'password = "${{{PASSWORD}}}"         # or "file:/run/secrets/source"\n'
    text = f"""\
{_heading("replica-client run", findings)}
# Every other key: replica-client run --example

[daemon]
state = "state"                         # positions and dead letters
listen = "127.0.0.1:9190"               # status page, /metrics, /healthz, /readyz

[[source]]
name = {_quoted(_name_of(tables))}
url = {_quoted(shown)}
{password if has_password else ""}{_tables(tables)}
start = "latest"                        # of the first run: now; "earliest": all that the source still has
# record_losses = ["gtid_gap"]          # count such losses with the position instead of stopping

# Where changes go: file, stdout, parquet, sqlite, mysql, postgres, duckdb, clickhouse, redis, kafka, http, nats.
[[source.sink]]
name = "changes"
type = "file"
path = "changes"                        # a directory: changes-000001.jsonl, …

# Tables equal to the source's, in one SQLite file, that begin with a copy:
# [[source.sink]]
# name = "mirror"
# type = "sqlite"
# path = "mirror.db"
# snapshot = true
"""
    return Configuration(text, PASSWORD if has_password else "")


def pipeline_configuration(
    url: str, tables: Sequence[str], findings: Iterable[Finding]
) -> Configuration:
    """Return a configuration of ``replica-client pipeline``: Delta tables that follow the source.

    Raises:
        ConfigError: the URL has several hosts, or a password among its options.
    """
    if len(split_hosts(url)) > 1:
        raise ConfigError("the pipeline reads one host: give the URL of one")
    shown, has_password = without_password(url)
    password = f'password_env = "{PASSWORD}"\n'
    text = f"""\
{_heading("replica-client pipeline", findings)}
# Every other key: pydoc replica_client.lake.config

[source]
url = {_quoted(shown)}
{password if has_password else ""}{_tables(tables)}
start = "snapshot"                      # copy the tables first, then follow

[pipeline]
output = "lake"                         # the lake: replica_client.lake.open_lake("lake"); or s3://…
trigger = "available-now"               # to the end and done; "continuous": follow
# interval = "5 seconds"                # between micro-batches, continuous only
"""
    return Configuration(text, PASSWORD if has_password else "")


def without_password(url: str) -> tuple[str, bool]:
    """Return a URL without its password, and whether it had one.

    Raises:
        ConfigError: an option of the URL is a password, which would be written.
    """
    scheme, mark, rest = url.partition("://")
    size = len(re.split("[/?#]", rest, maxsplit=1)[0])
    account, at, hosts = rest[:size].rpartition("@")
    user, colon, _ = account.partition(":")
    shown = f"{scheme}{mark}{user}{at}{hosts}{rest[size:]}"
    if next(secrets_in(shown.encode()), None) is not None:
        raise ConfigError(
            "an option of the URL is a password, which is not written into a file; put it into an"
            " option file, and ?option_file=FILE into the URL"
        )
    return shown, bool(colon)


def pattern_of(database: str) -> str:
    """Return the pattern of all tables of a database, whatever characters its name has."""
    if _PLAIN.fullmatch(database):
        return f"{database}.*"
    parts = database.replace("`", "``").split("$")
    # A dollar sign could name a variable of the environment.
    return f"{'?'.join(f'`{part}`' if part else '' for part in parts)}.*"


def _heading(command: str, findings: Iterable[Finding]) -> str:
    found = list(findings)
    version = next((one.text for one in found if one.check == "version"), "")
    lines = [f"# For `{command}`, made by `replica-client init`; the source: {version}"]
    for one in found:
        if one.severity is Severity.WARNING:
            lines.append(f"# {one.severity}: {one.check}: {one.text}")
    return "\n".join(map(printable, lines))


def _tables(tables: Sequence[str]) -> str:
    if not tables:
        return '# tables = ["shop.*"]                   # this account sees none: all are taken'
    return f"tables = [{', '.join(map(_quoted, tables))}]   # patterns with * and ?; database.table"


def _name_of(tables: Sequence[str]) -> str:
    """Return a name for the source: the first database."""
    return (_NAME.sub("", tables[0].split(".")[0]) if tables else "") or "source"


def _quoted(text: str) -> str:
    """Return a text as TOML, whose escapes are JSON's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class Kind(StrEnum):
    """The purposes of a configuration."""

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
