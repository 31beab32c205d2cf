"""Exceptions under asyncmy's names."""


class BinLogNotEnabledError(Exception):
    """The source writes no binlog."""


class TableMetadataUnavailableError(Exception):
    """What a table looks like is not known."""
