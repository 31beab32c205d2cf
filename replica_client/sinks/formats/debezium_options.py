"""Options of the Debezium format."""

from __future__ import annotations

from typing import Literal

import msgspec

from replica_client.errors import ConfigError
from replica_client.sinks.formats.debezium_times import TimeMode
from replica_client.sinks.formats.debezium_values import (
    BigintMode,
    BinaryMode,
    DecimalMode,
    ValueModes,
)


class DebeziumOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of Debezium's connector, with ``_`` for ``.``.

    Attributes:
        topic_prefix: the connector's logical name, ``source.name``.
        connector: ``source.connector``.
        decimal_handling_mode: ``precise``: base64 of the unscaled number, big-endian, in two's
            complement; ``string``; ``double``.
        binary_handling_mode: ``bytes`` and ``base64`` (the same in JSON), ``base64-url-safe``,
            ``hex``.
        time_precision_mode: ``adaptive_time_microseconds``, ``connect``, ``isostring``,
            ``microseconds`` or ``nanoseconds``.
        bigint_unsigned_handling_mode: ``number``: the value; ``long``: as Debezium writes it,
            negative from 2^63 on; ``precise``: as a decimal. Not given: ``number``, and ``precise``
            with schemas, whose numbers end at 2^63.
        provide_transaction_metadata: fill ``transaction``, and write BEGIN and END messages.
        include_schema_changes: write schema changes.
        include_schema_comments: write the comments of columns in schema changes.
        schemas_enable: write each message as ``{"schema": …, "payload": …}``.
        skipped_operations: the operations to leave out, of ``c``, ``u``, ``d`` and ``t``
            (TRUNCATE), separated by commas, or ``none``. Debezium leaves out ``t`` by default: a
            consumer then keeps rows that are gone.
        replace_null_with_default: write the default of a column where it is NULL, as Debezium does.
    """

    topic_prefix: str = "replica_client"
    connector: Literal["mysql", "mariadb"] = "mysql"
    decimal_handling_mode: DecimalMode = "precise"
    binary_handling_mode: BinaryMode = "bytes"
    time_precision_mode: TimeMode = "adaptive_time_microseconds"
    bigint_unsigned_handling_mode: BigintMode | None = None
    provide_transaction_metadata: bool = False
    include_schema_changes: bool = True
    include_schema_comments: bool = False
    schemas_enable: bool = False
    skipped_operations: str = "none"
    replace_null_with_default: bool = False

    def skipped(self) -> frozenset[str]:
        """Return the operations that are left out.

        Raises:
            ConfigError: one of them does not exist.
        """
        found = frozenset(one.strip() for one in self.skipped_operations.split(",")) - {"none", ""}
        if not found <= {"c", "u", "d", "t"}:
            raise ConfigError(
                f"format_options: skipped_operations: {self.skipped_operations!r} is not of c, u, d, t and none"
            )
        return found

    def modes(self, *, described: bool) -> ValueModes:
        """Return the modes in which values are written.

        Args:
            described: whether messages have schemas.

        Raises:
            ConfigError: the option asks for numbers that no schema can describe.
        """
        bigints = self.bigint_unsigned_handling_mode
        if described and bigints == "number":
            raise ConfigError(
                "format_options: bigint_unsigned_handling_mode: 'number' has no schema; with schemas it is "
                "'precise' or 'long'"
            )
        return ValueModes(
            decimal=self.decimal_handling_mode,
            binary=self.binary_handling_mode,
            time=self.time_precision_mode,
            bigint_unsigned=bigints or ("precise" if described else "number"),
        )
