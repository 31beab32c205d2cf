"""A sink's table of the configuration as a typed object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from replica_client.errors import ConfigError

Options = TypeVar("Options", bound=msgspec.Struct)


def read_options(kind: type[Options], table: Mapping[str, object], what: str) -> Options:
    """The table as an object of a class.

    Args:
        kind: the class; it forbids unknown fields.
        table: keys and values.
        what: which part of the configuration it is, for messages.

    Raises:
        ConfigError: a key is missing, unknown, or has a wrong value; names it.
    """
    try:
        return msgspec.convert(dict(table), kind)
    except msgspec.ValidationError as error:
        # The text is `Expected `int`, got `str` - at `$.rotate_bytes``; values are not in it.
        text = str(error).replace("`$.", "`").replace(" - at `", ": at `")
        raise ConfigError(f"{what}: {text}") from None


def check_least(options: msgspec.Struct, what: str, **least: float) -> None:
    """Refuse a number that is too small.

    Args:
        options: of the sink.
        what: as of :func:`read_options`.
        least: the smallest number for each option, by its name.

    Raises:
        ConfigError: an option is smaller; names it.
    """
    for name, number in least.items():
        if getattr(options, name) < number:
            raise ConfigError(f"{what}: {name}: at least {number} is wanted")


def check_positive(options: msgspec.Struct, what: str, *names: str) -> None:
    """Refuse numbers that are not above 0.

    Raises:
        ConfigError: an option is 0 or less; names it.
    """
    for name in names:
        if getattr(options, name) <= 0:
            raise ConfigError(f"{what}: {name}: more than 0 is wanted")


def check_path(path: str, what: str, kind: str) -> None:
    """Refuse an empty path.

    Raises:
        ConfigError: there is no path; says that a ``kind`` (``a file``, ``a directory``) is wanted.
    """
    if not path:
        raise ConfigError(f"{what}: path: {kind} is wanted")
