"""``replica-client pipeline``: the Spark pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replica_client.cli.extras import extra_module

EXAMPLE = "replica-client pipeline shop.toml"


def pipeline(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="What to read and where to write.")
    ],
) -> None:
    """Run the Spark pipeline: row changes into a change log, continued from its checkpoint."""
    config.open("rb").close()
    extra_module("replica_client.spark.pipeline", "spark").run_pipeline(config)
