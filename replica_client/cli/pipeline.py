"""``replica-client pipeline``: the Spark pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replica_client.cli.extras import extra_module
from replica_client.cli.output import Lines, progress_console

EXAMPLE = "replica-client pipeline shop.toml"


def pipeline(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="What to read and where to write.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's own messages.")] = False,
) -> None:
    """Run the Spark pipeline: row changes into a change log, continued from its checkpoint.

    The file, in short: [source] url or path, tables, start; [pipeline] output, trigger
    ("available-now" or "continuous"), max_bytes_per_trigger. It may be killed at any instant: the
    next run goes on behind the last micro-batch, and the change log has each change once.
    """
    config.open("rb").close()
    run = extra_module("replica_client.spark.pipeline", "spark,lake").run_pipeline
    result = run(config, console=progress_console(), verbose=verbose)
    lines = Lines()
    if as_json:
        lines.json(
            {
                "rows": result.rows,
                "position": result.position,
                "change_log": str(result.change_log),
                "version": result.version,
            }
        )
    else:
        lines.line(
            f"{result.rows} changes written to {result.change_log} (version {result.version})"
        )
        lines.line(f"position reached: {result.position or 'none, there is no binlog yet'}")
    lines.flush()
