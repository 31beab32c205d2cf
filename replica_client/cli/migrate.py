"""``replica-client migrate``: another tool's configuration and offset as ours."""

from __future__ import annotations

import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from replica_client.cli.output import Lines, message
from replica_client.cli.program import extra_module
from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable

EXAMPLE = "replica-client migrate debezium shop.json --offset offsets.dat --output shop.toml"


class Tool(StrEnum):
    """Whose configuration it is."""

    DEBEZIUM = "debezium"
    MAXWELL = "maxwell"
    CANAL = "canal"


def migrate(
    tool: Annotated[Tool, typer.Argument(metavar="TOOL", help="debezium, maxwell or canal.")],
    file: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Its configuration; for canal instance.properties, then canal.properties.",
        ),
    ],
    offset: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where it is: offsets of Kafka Connect, a row of maxwell.positions, meta.dat.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The file to make; default standard output."),
    ] = None,
) -> None:
    """Write a configuration of the service that does what another tool's does, and begins where that is.

    Keys that have no counterpart are named, in the file and on standard error. Passwords are not written: the file
    takes them from environment variables, which are named. The source is not asked.
    """
    if len(file) > 1 and tool is not Tool.CANAL:
        raise typer.BadParameter("give one file", param_hint="FILE")
    if output is not None and output.exists():
        raise ConfigError(f"{output}: this file exists; name a new one, or remove it")
    module = extra_module(f"replica_client.service.migration.from_{tool}", "daemon")
    make = getattr(module, f"migrate_{tool}")
    made = make(file if tool is Tool.CANAL else file[0], offset)
    text = made.text()
    _check(text)
    if output is None:
        lines = Lines()
        lines.data(text.rstrip("\n"))
        lines.flush()
    else:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        with open(descriptor, "w", encoding="utf-8") as written:
            written.write(text)
        message(f"{output} written")
    for one in made.not_taken:
        message(f"not taken over: {printable(one.key)}: {one.why}")
    for remark in made.remarks:
        message(remark)
    for name, what in made.variables.items():
        message(f"the environment variable {name} holds {what}")
    message(f"then: replica-client run {output or 'CONFIG.toml'} --check --connect")


def _check(text: str) -> None:
    """Read it as the service will.

    Raises:
        ConfigError: a value of the other tool is none of ours.
    """
    from replica_client.service.config_file import read_config

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "migrated.toml"
        path.write_text(text, encoding="utf-8")
        try:
            read_config(path)
        except ConfigError as error:
            where = str(error).rpartition("migrated.toml")[2].lstrip(":0123456789 ")
            raise ConfigError(f"the configuration cannot be taken over: {where}") from None
