"""Spark: the ``mysql-binlog`` data source, and the pipeline on it.

::

    spark.read.format("mysql-binlog").option("path", "/backup/binlog.*").load()
    spark.readStream.format("mysql-binlog").option("url", "mysql://db1/").option("tables", "shop.*").load()

Spark registers the format on its own where this package is installed on Spark's side
(:mod:`replica_client.lake.spark.registration`). Its options are in :mod:`replica_client.lake.source_options`.
"""
