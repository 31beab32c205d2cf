"""Bytes and their meaning, without I/O: constants, codecs, GTIDs, positions, ``wire`` and ``binlog``."""
