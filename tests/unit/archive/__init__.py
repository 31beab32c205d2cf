"""Tables of many binlog files."""
