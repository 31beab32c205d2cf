"""Readers with the same four iterators for binlog files and live sources."""
