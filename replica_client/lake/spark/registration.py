"""Registers the ``mysql-binlog`` format: Spark imports every module named ``pyspark_*``.

The build puts this file on the path as ``pyspark_replica_client``.
"""

from __future__ import annotations

from replica_client.lake.spark.source.data_source import BinlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
