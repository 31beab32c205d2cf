"""Many binlog files as one: tables, index, search, undo, as-of, ``backup``."""
