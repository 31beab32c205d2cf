"""The relay: reads a source's binlog once, keeps it byte for byte, and serves it to replicas."""
