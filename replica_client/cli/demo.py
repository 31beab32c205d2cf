"""``replica-client demo``: the main job on the embedded source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from replica_client import _compiled
from replica_client.cli.demonstration.plain_client import PlainClient
from replica_client.cli.demonstration.proof import Screen
from replica_client.cli.program import FaultFoundError, extra_module

_EXTRA = "spark"


def demo(
    output: Annotated[
        Path, typer.Option(metavar="PATH", help="Where its files go; emptied first.")
    ] = Path("demo-output"),
    plain: Annotated[bool, typer.Option(help="The part with the plain client.")] = True,
    spark: Annotated[bool, typer.Option(help="The part with Spark's pipeline.")] = True,
) -> None:
    """Run the whole path in a minute: no MySQL, no Docker, no Java needed.

    The testing source serves a small binlog over the real replication protocol; the client logs in,
    registers as a replica, dumps and decodes, and prints changes; then the Spark pipeline does, and
    writes a change log. Both are killed in the midst of their work and started again, and the result is
    compared with what the MySQL server that wrote the binlog answered to SELECT.
    """
    if not _compiled.compiled():
        # It is said once, here; not again by each process.
        os.environ.setdefault(_compiled.VARIABLE, "python")
    output.mkdir(parents=True, exist_ok=True)
    if plain and not PlainClient(Screen(), output).run().holds:
        raise FaultFoundError("what the client printed does not equal the source; see above")
    if spark:
        if plain:
            typer.echo()
        _with_spark(output)


def _with_spark(output: Path) -> None:
    reader = extra_module("replica_client.lake.change_log_files", _EXTRA)
    extra_module("replica_client.lake.pipeline.runner", _EXTRA)
    extra_module("replica_client.lake.spark.spark_session", _EXTRA).java_home()
    from replica_client.cli.demonstration.spark_pipeline import SparkPipeline

    if not SparkPipeline(Screen(), output, reader).run().holds:
        raise FaultFoundError("the change log does not equal the source; see above")
