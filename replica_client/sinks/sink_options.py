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
