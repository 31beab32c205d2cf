"""Exceptions under the names of python-mysql-replication."""


class TableMetadataUnavailableError(Exception):
    """Raised when the definition of a table is not known."""

    def __init__(self, table: str) -> None:
        super().__init__(f"Unable to find metadata for table {table}")


class BinLogNotEnabled(Exception):
    """The source writes no binlog."""

    def __init__(self) -> None:
        super().__init__("MySQL binary logging is not enabled.")


class StatusVariableMismatch(Exception):
    """A query event has a status variable that is not known; only with ``strict_compat``."""

    def __init__(self) -> None:
        super().__init__("a query event has a status variable that is not known")


class MalformedBinLogEvent(Exception):
    """The bytes of an event are not an event of its type."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
