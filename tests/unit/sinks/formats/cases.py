"""Binlogs of real servers with every type, and the lines that each format makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from replica_client import open_binlog
from replica_client.rows.selection import Selection
from replica_client.sinks.formats.line_format import make_format
from replica_client.stream.transactions.assembler import AssemblyOptions

LINES = Path(__file__).parent / "lines"
SERVERS = ("mysql-9.7", "mariadb-11.8")
NOW_NS = 1_795_000_000_123_456_789
"""The time of day for lines that tell when they were made."""

FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "native": ("native", {}),
    "canal": ("canal", {}),
    "debezium": ("debezium", {}),
    "debezium-transactions": (
        "debezium",
        {
            "topic_prefix": "shop", "connector": "mariadb", "decimal_handling_mode": "string",
            "binary_handling_mode": "hex", "provide_transaction_metadata": True, "include_schema_changes": False,
        },
    ),
    "debezium-double": (
        "debezium", {"decimal_handling_mode": "double", "binary_handling_mode": "base64-url-safe"},
    ),
    "debezium-schemas": (
        "debezium",
        {
            "schemas_enable": True, "time_precision_mode": "connect", "include_schema_comments": True,
            "skipped_operations": "d,t", "replace_null_with_default": True, "provide_transaction_metadata": True,
        },
    ),
    "debezium-text-times": (
        "debezium", {"time_precision_mode": "isostring", "bigint_unsigned_handling_mode": "long"},
    ),
    "debezium-nanoseconds": (
        "debezium",
        {
            "schemas_enable": True, "time_precision_mode": "nanoseconds", "bigint_unsigned_handling_mode": "precise",
            "decimal_handling_mode": "string", "include_schema_changes": False, "skipped_operations": "u",
        },
    ),
    "maxwell": ("maxwell", {}),
    "maxwell-all": (
        "maxwell",
        {
            "output_commit_info": True, "output_xoffset": True, "output_binlog_position": True,
            "output_gtid_position": True, "output_server_id": True, "output_thread_id": True,
            "output_primary_keys": True, "output_primary_key_columns": True, "output_nulls": False,
        },
    ),
    "maxwell-little": ("maxwell", {"output_commit_info": False, "output_ddl": False}),
    "cloudevents": ("cloudevents", {"source": "/shops/1", "type_prefix": "com.example.shop"}),
    "cloudevents-debezium": (
        "cloudevents",
        {"data": "debezium", "data_options": {"provide_transaction_metadata": True}},
    ),
}  # fmt: skip


def lines_of(server: str, case: str, part_size: int = 1 << 20) -> Iterator[str]:
    """The lines that a format makes of a server's binlog, at a time of day that stands still."""
    name, options = FORMATS[case]
    assembly = AssemblyOptions(Selection(["kinds.*"]), part_size=part_size)
    line_format = make_format(name, options)
    with mock.patch("time.time_ns", lambda: NOW_NS):
        for transaction in open_binlog(
            LINES / f"{server}.binlog", assembly=assembly
        ).transactions():
            yield from line_format.lines(transaction)
