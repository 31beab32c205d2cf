"""Conversion of a sink's table of the configuration to a typed object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from replica_client.errors import ConfigError

Options = TypeVar("Options", bound=msgspec.Struct)


def read_options(kind: type[Options], table: Mapping[str, object], what: str) -> Options:
    """Return the table as an object of a class.

    Args:
        kind: the class, which should forbid unknown fields.
        table: keys and values.
        what: part of the configuration, for messages.

    Raises:
        ConfigError: a key is missing, unknown, or has a wrong value; the message names it.
    """
    try:
        return msgspec.convert(dict(table), kind)
    except msgspec.ValidationError as error:
        # The text is `Expected `int`, got `str` - at `$.rotate_bytes``, without values.
        text = str(error).replace("`$.", "`").replace(" - at `", ": at `")
        raise ConfigError(f"{what}: {text}") from None


def check_least(options: msgspec.Struct, what: str, **least: float) -> None:
    """Check that numbers are not too small.

    Args:
        options: options of the sink.
        what: see :func:`read_options`.
        least: minimum of each option, by name.

    Raises:
        ConfigError: an option is smaller; the message names it.
    """
    for name, number in least.items():
        if getattr(options, name) < number:
            raise ConfigError(f"{what}: {name}: at least {number} is wanted")


def check_positive(options: msgspec.Struct, what: str, *names: str) -> None:
    """Check that numbers are above 0.

    Raises:
        ConfigError: an option is 0 or less; the message names it.
    """
    for name in names:
        if getattr(options, name) <= 0:
            raise ConfigError(f"{what}: {name}: more than 0 is wanted")


def check_path(path: str, what: str, kind: str) -> None:
    """Check that a path is not empty.

    Raises:
        ConfigError: the path is empty; the message asks for ``kind`` (``a file``, ``a directory``).
    """
    if not path:
        raise ConfigError(f"{what}: path: {kind} is wanted")
