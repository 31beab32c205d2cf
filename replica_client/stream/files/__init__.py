"""Binlog files: their bytes, their ranges, and the four iterators over them."""
