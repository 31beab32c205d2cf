"""Assembly and decoding options from the keywords of the Python API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from replica_client.binlog.options import DecodeOptions
from replica_client.errors import ConfigError
from replica_client.readers.assembler import AssemblyOptions
from replica_client.rows.selection import Selection


def assembly_of(
    assembly: AssemblyOptions | None,
    *,
    tables: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    full_rows: bool = False,
    record_losses: Collection[str] | str = (),
    on_statement: Literal["error", "deliver"] | None = None,
    on_unknown_table: Literal["error", "positional"] | None = None,
) -> AssemblyOptions:
    """Return the assembly options: the given object, or one made from the single keywords.

    Raises:
        ConfigError: both are given, or a keyword is wrong.
    """
    if tables is not None and not tables:
        raise ConfigError(f"tables={tables!r} selects no table: give patterns, or None for all")
    if assembly is None:
        return AssemblyOptions(
            Selection(tables, exclude, columns),
            on_statement=on_statement or "error",
            on_unknown_table=on_unknown_table,
            full_rows=full_rows,
            record_losses=record_losses,
        )
    single = {
        "tables": tables,
        "exclude": exclude,
        "columns": columns,
        "full_rows": full_rows,
        "record_losses": record_losses,
        "on_statement": on_statement,
        "on_unknown_table": on_unknown_table,
    }
    both = [f"{name}=" for name, value in single.items() if value]
    if both:
        raise ConfigError(
            f"assembly= is given, and {', '.join(both)} too: give one of both, or"
            " rc.AssemblyOptions(rc.Selection(tables), …) with all of them"
        )
    return assembly


def decode_of(
    options: DecodeOptions | None,
    *,
    keys: Mapping[str, bytes] | None = None,
    invalid_text: Literal["strict", "replace", "bytes"] | None = None,
    temporals: Literal["lossless", "python"] | None = None,
) -> DecodeOptions:
    """Return the decoding options, with the given keywords replaced."""
    decode = options or DecodeOptions()
    if keys:
        decode = replace(decode, keys=dict(keys))
    if invalid_text is not None:
        decode = replace(decode, invalid_text=invalid_text)
    if temporals is not None:
        decode = replace(decode, temporals=temporals)
    return decode
