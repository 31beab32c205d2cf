"""The ``mysql-binlog`` data source: planning on the driver, reading by executors, batches for Spark."""
