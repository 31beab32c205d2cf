"""``replica-client position``: saved positions."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from replica_client.cli.flags import Command, Json
from replica_client.cli.output import Column, Lines
from replica_client.cli.program import FaultFoundError, extra_module
from replica_client.cli.reading import print_losses
from replica_client.errors import (
    ConfigError,
    PositionFormatError,
    ReplicaClientError,
    without_secrets,
)
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position, difference
from replica_client.stream.position.losses import LOSSES_KEY
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.arguments import parse_start
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection

EXAMPLE = "replica-client position show state/"

# \b keeps the lines apart in --help.
STORES = """\
A PLACE is

\b
  shop.position                      a file, or a directory of them
  positions.sqlite#shop.lake         a row of an SQLite database
  mysql://user@host/meta#shop.lake   a row of a table in a server
  shop.toml#shop.lake                a sink of a daemon's configuration
  shop.toml                          all of them"""

app = typer.Typer(
    help="Saved positions: of the daemon, and of `changes --position-file`.",
    epilog=f"Example:  {EXAMPLE}",
    no_args_is_help=True,
    rich_markup_mode=None,
)

StoreName = Annotated[str, typer.Argument(metavar="PLACE", help="Where it is kept; see below.")]
Table = Annotated[
    str,
    typer.Option(
        "--position-table", metavar="NAME", help="Table of positions, in a database or server."
    ),
]
_TABLE = "replica_client_positions"
_COLUMNS = (Column("name", 28), Column("position"))


def _stores() -> Any:
    return extra_module("replica_client.service.position_keepers", "daemon")


@app.command(cls=Command, epilog=STORES)
def show(
    store: StoreName,
    table: Table = _TABLE,
    json: Json = False,
) -> None:
    """Print what is saved, and the losses that were counted with it (record_losses)."""
    lines = Lines(_COLUMNS)
    with _stores().keepers(store, table) as found:
        if not found:
            raise ConfigError(f"{store}: no positions are kept there")
        failed = 0
        for address, keeper in found.items():
            name = without_secrets(address)
            try:
                checkpoint = keeper.load()
            except (ReplicaClientError, OSError) as error:
                # The others are shown.
                if len(found) == 1:
                    raise
                failed += 1
                text = " ".join(str(error).split())
                if json:
                    lines.json({"name": name, "error": text})
                else:
                    lines.row((name, f"unavailable: {text}"))
                continue
            position = None if checkpoint is None else checkpoint.position
            if json:
                lines.json(
                    {
                        "name": name,
                        "text": None if position is None else str(position),
                        "position": None if position is None else position.to_json(),
                        "state": sorted(checkpoint.state) if checkpoint else [],
                    }
                )
            else:
                lines.row((name, "none" if position is None else position))
            if checkpoint is not None:
                print_losses(checkpoint.state, lines, json=json)
        if failed:
            lines.flush()
            raise FaultFoundError(f"{failed} of {len(found)} positions cannot be read; see above")


@app.command("set", cls=Command, epilog=STORES)
def set_position(
    store: StoreName,
    position: Annotated[
        str, typer.Argument(metavar="POSITION", help="FILE:OFFSET, a GTID set, or both with @.")
    ],
    table: Table = _TABLE,
    keep_state: Annotated[
        bool,
        typer.Option(
            "--keep-state", help="Keep the schema history and the source's identity with it."
        ),
    ] = False,
) -> None:
    """Save another position, for a daemon that does not run.

    What is saved beside it (the schema history, the identity of the source) goes, and is found out
    anew, unless it is kept.
    """
    wanted = _parse(position)
    if wanted.inside_transaction:
        raise ConfigError(f"{position}: inside a transaction; give the start of one")
    with _stores().keepers(store, table) as found:
        if len(found) != 1:
            raise ConfigError(f"{store}: name one of {', '.join(found) or 'none'} with #NAME")
        ((name, keeper),) = found.items()
        before = keeper.load()
        state = dict(before.state) if before is not None else {}
        if not keep_state:
            # What was lost stays lost.
            state = {LOSSES_KEY: state[LOSSES_KEY]} if LOSSES_KEY in state else {}
        keeper.save(Checkpoint(wanted, state))
    old = "none" if before is None else str(before.position)
    Lines().line(f"{name}: {old} -> {wanted}")


@app.command("take-over", cls=Command)
def take_over(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="The service's configuration file.")
    ],
    sink: Annotated[
        str, typer.Option("--sink", metavar="SOURCE.SINK", help="The sink that takes over.")
    ],
    number: Annotated[
        str,
        typer.Option(
            "--owner", metavar="ID", help="Identity of the other, where there are several."
        ),
    ] = "",
) -> None:
    """Make a sink take over from another owner at its next start: the tables and the position.

    The service of this configuration must not run; stop the other one for good.
    """
    if not config.endswith(".toml"):
        raise ConfigError(f"{config}: a service's configuration file (.toml) is needed")
    with _stores().keepers(config, _TABLE) as found:
        names = [one for one in found if sink in (one, one.partition(".")[2])]
        if len(names) != 1:
            raise ConfigError(f"--sink {sink}: name one of {', '.join(found)}")
        other = found[names[0]].take_over(number)
    Lines().line(f"{names[0]}: takes over from {other} (since {other.since}) at the next start")


@app.command(cls=Command, epilog=STORES)
def diff(
    first: Annotated[str, typer.Argument(metavar="PLACE", help="Where it is kept; see below.")],
    second: Annotated[
        str, typer.Argument(metavar="PLACE|URL", help="Another place, or the source.")
    ],
    table: Table = _TABLE,
    json: Json = False,
) -> None:
    """Compare two saved positions, or one with its source's end: GTIDs and bytes between.

    Ends with status 1 when they differ.
    """
    sizes: dict[str, int] = {}
    one = _load(first, table)
    other = asyncio.run(_end(second, sizes)) if _is_source(second) else _load(second, table)
    found = difference(one, other, sizes)
    lines = Lines()
    if json:
        lines.json(
            {
                "first": str(one),
                "second": str(other),
                "only_first": found.only_first,
                "only_second": found.only_second,
                "bytes_ahead": found.bytes_ahead,
            }
        )
    else:
        lines.line(f"first:        {one}")
        lines.line(f"second:       {other}")
        if found.only_first is not None:
            lines.line(f"only first:   {found.only_first or 'nothing'}")
            lines.line(f"only second:  {found.only_second or 'nothing'}")
        ahead = "not known" if found.bytes_ahead is None else f"{found.bytes_ahead} bytes"
        lines.line(f"second ahead: {ahead}")
    lines.flush()
    if not found.is_none:
        raise FaultFoundError("the positions differ; see above")


def _is_source(store: str) -> bool:
    return bool(_stores().is_live_source(store))


def _load(store: str, table: str) -> Position:
    with _stores().keepers(store, table) as found:
        if len(found) != 1:
            raise ConfigError(f"{store}: name one of {', '.join(found) or 'none'} with #NAME")
        (keeper,) = found.values()
        checkpoint = keeper.load()
    if checkpoint is None:
        raise ConfigError(f"{store}: no position is saved there; check the name")
    position: Position = checkpoint.position
    return position


async def _end(url: str, sizes: dict[str, int]) -> Position:
    async with await SourceConnection.open(parse_url(url)) as connection:
        status = await connection.binlog_status()
        sizes.update(await connection.binary_logs())
        sizes[status.file] = status.position
        kind = MariadbGtidSet if connection.server.is_mariadb else GtidSet
        return Position(status.file, status.position, kind.parse(status.executed_gtid_set))


def _parse(text: str) -> Position:
    start = parse_start(text, "latest", "POSITION")
    if not isinstance(start, Position):
        raise PositionFormatError(
            f"{text!r} is not a position; give FILE:OFFSET, a GTID set, or both with @ between them"
        )
    return start
