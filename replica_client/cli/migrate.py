"""``replica-client migrate``: another tool's configuration and offset as ours."""

from __future__ import annotations

import json
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
    schema_history: Annotated[
        str,
        typer.Option(
            "--schema-history",
            metavar="PLACE",
            help="Of debezium: the file of its schema history, or kafka://HOST:PORT/TOPIC.",
        ),
    ] = "",
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
    if schema_history and (output is None or tool is not Tool.DEBEZIUM):
        raise ConfigError(
            "--schema-history is for debezium, and needs --output: a file beside it has the tables"
        )
    more = (schema_history,) if schema_history else ()
    made = make(file if tool is Tool.CANAL else file[0], offset, *more)
    if made.schema is not None and output is not None:
        tables = output.with_suffix(".schema.json")
        _write(tables, json.dumps(made.schema.to_json(), ensure_ascii=False, indent=1))
        made.source["schema_file"] = tables.name
    text = made.text()
    _check(text)
    if output is None:
        lines = Lines()
        lines.data(text.rstrip("\n"))
        lines.flush()
    else:
        _write(output, text)
    for one in made.not_taken:
        message(f"not taken over: {printable(one.key)}: {one.why}")
    for remark in made.remarks:
        message(remark)
    for name, what in made.variables.items():
        message(f"the environment variable {name} holds {what}")
    message(f"then: replica-client run {output or 'CONFIG.toml'} --check --connect")


def _write(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        ConfigError: it exists.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    except FileExistsError:
        raise ConfigError(f"{path}: this file exists; name a new one, or remove it") from None
    with open(descriptor, "w", encoding="utf-8") as written:
        written.write(text)
    message(f"{path} written")


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
