"""``replica-client pipeline``: the lake's pipeline, in one process or on Spark."""

from __future__ import annotations

import sys
import warnings
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from replica_client.cli.failures import NOT_CURRENT
from replica_client.cli.flags import Json
from replica_client.cli.output import Lines
from replica_client.cli.program import extra_module

EXAMPLE = "replica-client pipeline shop.toml"

# What a configuration needs, as --help shows it.
CONFIGURATION = """
\b
    [source]
    url = "mysql://repl@db1/"
    password_env = "REPL_PASSWORD"
    tables = ["shop.*"]
    start = "snapshot"
\b
    [pipeline]
    output = "lake"
    trigger = "available-now"
"""


class Engine(StrEnum):
    """The engine that reads and merges."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


def pipeline(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="What to read and where to write.")
    ],
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's own messages.")] = False,
    engine: Annotated[
        Engine | None,
        typer.Option(
            "--engine",
            help="What works: this process (local), Spark, or what is cheaper for the size of the run (auto).",
            show_default="as in the file, else auto",
        ),
    ] = None,
    json: Json = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit status 3 when a table is not current.")
    ] = False,
) -> None:
    """Keep a change log and current tables of a source as Delta tables; large runs use Spark.

    Copies the tables first where start = "snapshot". Continues from its checkpoint; a change is
    written once, also after a kill at any instant.
    """
    config.open("rb").close()
    _spare_pandas()
    module = extra_module("replica_client.lake.pipeline.runner", "spark")
    result = module.run_pipeline(config, verbose=verbose, engine=engine and engine.value)
    lines = Lines()
    if json:
        lines.json(
            {
                "rows": result.rows,
                "position": result.position,
                "change_log": str(result.change_log),
                "version": result.version,
                "tables": result.tables,
                "copied": result.copied,
                "lag_seconds": result.lag,
                "not_current": list(result.not_current),
                "report": None if result.report is None else str(result.report),
            }
        )
    else:
        lines.line(f"{result.rows} changes written, source read to {result.position or 'nothing'}")
        lines.line(f"change log: {result.change_log} (Delta table, version {result.version})")
        if result.copied:
            lines.line(f"{result.copied} rows copied")
        if result.tables:
            lag = "" if result.lag is None else f", {result.lag:.1f} s behind the last change"
            lines.line(f"{result.tables} current tables{lag}")
        for one in result.not_current:
            lines.line(f"{one['table']}: {one['status'].replace('_', ' ')}: {one['reason']}")
        if result.report is not None:
            lines.line(f"report: {result.report}")
    if strict and result.not_current:
        lines.flush()
        raise typer.Exit(NOT_CURRENT)


def _spare_pandas() -> None:
    """Make pyarrow find no pandas, which it would import for its first array: 0.45 CPU s and 55 MB."""
    if "pandas" not in sys.modules and find_spec("pyarrow"):
        old = sys.modules["pandas"] = ModuleType("pandas")
        old.__version__ = "0"  # type: ignore[attr-defined]  # too old for pyarrow
        try:
            with warnings.catch_warnings(action="ignore"):
                import_module("pyarrow").array([0])
        finally:
            del sys.modules["pandas"]


pipeline.__doc__ = f"{cleandoc(pipeline.__doc__ or '')}\n\nThe file:\n{CONFIGURATION}"
