"""Byte-identical copies of a source's binlog files, resumed after any cut without a gap."""
