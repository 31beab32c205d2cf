"""``replica-client lake``: what is in the lake of a pipeline, and its upkeep."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from replica_client.cli.extras import extra_module
from replica_client.cli.output import Lines

app = typer.Typer(
    no_args_is_help=True,
    help="The tables of a pipeline's lake: what is in them, and their upkeep.",
    epilog="Example:  replica-client lake status shop.toml",
)
_Config = Annotated[
    Path, typer.Argument(metavar="CONFIG.toml", help="The pipeline's configuration.")
]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object per table.")]


@app.command(epilog="Example:  replica-client lake status shop.toml")
def status(config: _Config, json: _Json = False) -> None:
    """Show rows, files and bytes of each table, and which are not current, and why."""
    _show(_module(config).lake_status(config), json)


@app.command(epilog="Example:  replica-client lake compact shop.toml")
def compact(config: _Config, json: _Json = False) -> None:
    """Put small files together; no row changes. The pipeline must not run."""
    _show(_module(config).compact_lake(config), json)


@app.command(epilog="Example:  replica-client lake vacuum shop.toml --hours 24")
def vacuum(
    config: _Config,
    hours: Annotated[
        float, typer.Option("--hours", min=0, help="Keep what a version of so many hours ago has.")
    ] = 168,
    json: _Json = False,
) -> None:
    """Remove files that no table needs any more. The pipeline must not run."""
    _show(_module(config).vacuum_lake(config, hours), json)


def _module(config: Path) -> Any:
    config.open("rb").close()
    return extra_module("replica_client.lake.maintenance", "spark")


def _show(tables: list[Any], json: bool) -> None:
    lines = Lines()
    for one in tables:
        if json:
            lines.json(asdict(one))
            continue
        text = f"{one.table}: {one.rows:,} rows in {one.files:,} files, {one.size:,} bytes"
        if one.files_before:
            text += f", {one.files_before:,} files before"
        if one.removed:
            text += f", {one.removed:,} files removed"
        if one.status not in ("", "current"):
            text += f" ({one.status.replace('_', ' ')}: {one.reason})"
        lines.line(text)
