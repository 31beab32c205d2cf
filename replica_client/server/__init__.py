"""The server half of the replication protocol: binlog files, served to any client."""
