"""Ranges of a source's binlog, planned by the driver and read by tasks, here or on executors."""
