"""``replica-client verify``: whether the lake equals its source."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from replica_client.cli.failures import FAULTY
from replica_client.cli.flags import Json
from replica_client.cli.output import Lines
from replica_client.cli.program import extra_module

EXAMPLE = "replica-client verify shop.toml"


def verify(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="The pipeline's configuration.")
    ],
    spark: Annotated[
        bool, typer.Option("--spark", help="Read the lake with Spark, as for large lakes.")
    ] = False,
    json: Json = False,
) -> None:
    """Prove that the lake's current tables equal the source at the lake's position.

    Checksums of ranges are made by the source's SQL and of the lake's files; where they differ, rows are
    compared. Rows that the binlog says were changed since are left out. Exit status 1 when a table
    differs or cannot be compared.
    """
    config.open("rb").close()
    module = extra_module("replica_client.lake.pipeline.runner", "spark")
    lines = Lines()
    report = module.verify_lake(config, console=Console(stderr=True), spark=spark)
    for table in report.tables:
        if json:
            # Rows hold dates and decimals.
            lines.json_text(dumps(asdict(table), ensure_ascii=False, default=str))
        else:
            _show(lines, table)
    if json:
        lines.json(
            {
                "position": report.position,
                "source_position": report.source_position,
                "equal": report.equal,
            }
        )
    else:
        equal = sum(table.outcome == "equal" for table in report.tables)
        lines.line(
            f"{equal} of {len(report.tables)} tables equal at {report.position}; the source was read up to "
            f"{report.source_position}"
        )
    if not report.equal:
        lines.flush()
        raise typer.Exit(FAULTY)


def _show(lines: Lines, table: Any) -> None:
    text = f"{table.table}: {table.outcome.replace('_', ' ')}"
    if table.outcome in ("equal", "different"):
        text += f", {table.rows:,} rows, {table.groups} groups"
    if table.narrowed:
        text += f", {table.narrowed} looked into"
    if table.changed_since:
        text += f", {table.changed_since} rows changed since"
    if table.different:
        text += f", {table.different:,} rows differ"
    lines.line(f"{text}: {table.reason}" if table.reason else text)
    for one in table.differences:
        lines.line(f"  {one.key}")
        lines.line(f"    source {_row(one.source)}")
        lines.line(f"    lake   {_row(one.lake)}")


def _row(row: dict[str, Any] | None) -> str:
    if row is None:
        return "has no such row"
    return ", ".join(f"{name}={value!r}" for name, value in row.items() if name[0] != "_")
