"""Parts of the documentation that are made from the code, so that they cannot differ from it.

A page asks for one with a comment on a line of its own: ``<!-- generated: NAME -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from reference_pages import batches, command_line, configuration, layers, metrics, recipes, sources

PARTS: Mapping[str, Callable[[], str]] = {
    "batch-columns": batches.batch_columns,
    "command-line": command_line.commands,
    "envelope-columns": batches.envelope_columns,
    "error-tree": sources.error_tree,
    "example-configuration": configuration.example,
    "exit-statuses": command_line.exit_statuses,
    "faults": sources.faults,
    "layers": layers.layers,
    "loss-kinds": sources.loss_kinds,
    "metrics": metrics.metrics,
    "options": configuration.options,
    "pipeline-metrics": metrics.pipeline_metrics,
    "pipeline-configuration": configuration.pipeline,
    "recipes": recipes.recipes,
    "relay-configuration": configuration.relay,
    "service-configuration": configuration.service,
    "sink-options": configuration.sinks,
    "spark-options": sources.spark_options,
    "typed-columns": batches.typed_columns,
    "url-parameters": sources.url_parameters,
    **{
        f"{target}-types": partial(batches.types_of, target, head)
        for target, head in (
            ("arrow", "Arrow"),
            ("canal", "`java.sql.Types`"),
            ("clickhouse", "ClickHouse"),
            ("debezium", "Kafka Connect"),
            ("dlt", "dlt"),
            ("duckdb", "DuckDB"),
            ("json", "JSON"),
            ("lake", "Arrow, in Delta, Iceberg and Parquet"),
            ("maxwell", "JSON"),
            ("postgres", "PostgreSQL"),
            ("python", "Python"),
            ("singer", "JSON schema"),
            ("spark", "Spark"),
            ("sqlite", "SQLite"),
        )
    },
}
"""Name of a part, and what makes its Markdown."""

REQUEST = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)


def with_parts(text: str) -> str:
    """A page with every part that it asks for.

    Raises:
        KeyError: no part has that name.
    """
    return REQUEST.sub(lambda match: PARTS[match[1]](), text)
