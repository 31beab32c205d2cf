"""Spark 4.1 or newer: the ``mysql-binlog`` data source, and the pipeline on it.

::

    spark.read.format("mysql-binlog").option("path", "/backup/binlog.*").load()
    spark.readStream.format("mysql-binlog").option("url", "mysql://db1/").option("tables", "shop.*").load()

Spark registers the format on its own where this package is installed on Spark's side
(:mod:`replica_client.lake.spark.registration`). Its options are in :mod:`replica_client.lake.source_options`.
"""

from __future__ import annotations

import pyspark

from replica_client.errors import ConfigError

if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1):
    raise ConfigError(
        f"PySpark {pyspark.__version__} is too old for the data source mysql-binlog, which needs 4.1 or newer: "
        "pip install 'pyspark>=4.1,<5'"
    )
