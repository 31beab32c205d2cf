"""Exceptions under asyncmy's names."""


class BinLogNotEnabledError(Exception):
    """The source writes no binlog."""


class TableMetadataUnavailableError(Exception):
    """Raised when the definition of a table is not known."""
