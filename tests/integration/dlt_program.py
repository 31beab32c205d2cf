"""Brings a dlt destination to what a source has: a program, so that it can be killed.

python -m tests.integration.dlt_program SOURCE_URL duckdb|postgres DESTINATION DIRECTORY
"""

from __future__ import annotations

import os
import sys

import dlt

from replica_client.integrations.dlt_tables import load


def main(url: str, kind: str, destination: str, directory: str) -> None:
    os.environ["RUNTIME__LOG_LEVEL"] = "CRITICAL"
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    make = dlt.destinations.duckdb if kind == "duckdb" else dlt.destinations.postgres
    pipeline = dlt.pipeline(
        "shop", destination=make(destination), dataset_name="lake", pipelines_dir=directory
    )
    load(pipeline, url, tables="shop.*", name=lambda database, table: table)


if __name__ == "__main__":
    main(*sys.argv[1:])
