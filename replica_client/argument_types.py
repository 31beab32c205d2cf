"""Types of the arguments of the Python API, checked where they are given.

An argument has one meaning in every function, so that the table has a row for each name. A value of another type is
refused when the function is called, in one line, and not where it is used first.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from replica_client.errors import ConfigError, without_secrets

_P = ParamSpec("_P")
_T = TypeVar("_T")

_Check = Callable[[object], bool]

MAX_SECONDS: Final = 100_000_000
"""More than three years: what is longer is a mistake of the unit."""


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_seconds(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(float(value)) and 0 <= float(value) <= MAX_SECONDS  # type: ignore[arg-type]


def _is_time(value: object) -> bool:
    return _is_seconds(value) and value != 0


def _is_names(value: object) -> bool:
    return (
        isinstance(value, Collection)
        and not isinstance(value, (str, bytes, Mapping))
        and all(isinstance(name, str) for name in value)
    )


def _is_patterns(value: object) -> bool:
    return isinstance(value, str) or _is_names(value)


def _is_columns(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and _is_names(names) for name, names in value.items())
    return _is_names(value)


def _is_kinds(value: object) -> bool:
    return isinstance(value, str) or (
        hasattr(value, "__iter__")
        and not isinstance(value, (bytes, Mapping))
        and all(isinstance(kind, str) for kind in value)
    )


def _is_keys(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(key, bytes) for name, key in value.items()
    )


def _is_store(value: object) -> bool:
    return isinstance(value, (str, os.PathLike)) or hasattr(value, "load_checkpoint")


def _one_of(*values: str) -> _Check:
    return lambda value: isinstance(value, str) and value in values


_PATTERNS = 'a pattern such as "shop.*", or a list of them'
_FLAG = "True or False"
_SECONDS = "seconds, 0 or more"
_PERIOD = "seconds, more than 0"
_NUMBER = "a whole number, at least 1"

ARGUMENTS: Final[dict[str, tuple[_Check, str]]] = {
    "tables": (_is_patterns, _PATTERNS),
    "exclude": (_is_patterns, _PATTERNS),
    "columns": (_is_columns, 'a list of names, or {"shop.orders": ["id", "total"]}'),
    "stop_at_end": (_is_flag, _FLAG),
    "position_store": (_is_store, "the path of a file, or a position store"),
    "server_id": (_is_integer, "a number from 1 to 4294967295, or None for a random one"),
    "heartbeat_period": (_is_time, _PERIOD),
    "read_timeout": (_is_time, _PERIOD + ", or None for three heartbeats"),
    "semi_sync": (_is_flag, _FLAG),
    "save_interval": (_is_seconds, _SECONDS),
    "first_delay": (_is_seconds, _SECONDS),
    "max_delay": (_is_seconds, _SECONDS),
    "first_attempts": (_is_integer, "a number of tries, or None for no end"),
    "attempts": (_is_integer, "a number of tries, or None for no end"),
    "full_rows": (_is_flag, _FLAG),
    "allow_empty": (_is_flag, _FLAG),
    "record_losses": (_is_kinds, 'a list of kinds such as ["statement"], or "all"'),
    "on_statement": (_one_of("error", "deliver"), '"error" or "deliver"'),
    "on_unknown_table": (_one_of("error", "positional"), '"error" or "positional"'),
    "invalid_text": (_one_of("strict", "replace", "bytes"), '"strict", "replace" or "bytes"'),
    "temporals": (_one_of("lossless", "python"), '"lossless" or "python"'),
    "keys": (
        _is_keys,
        "a dict of bytes by key id; replica_client.protocol.binlog.encryption.read_keys reads a file",
    ),
    "verify_checksum": (_is_flag, _FLAG),
    "max_event_size": (_is_count, _NUMBER),
    "max_uncompressed_size": (_is_count, _NUMBER),
    "part_size": (_is_count, _NUMBER),
    "on_schema_mismatch": (_one_of("error", "positional"), '"error" or "positional"'),
    "threads": (_is_count, _NUMBER),
    "max_rows": (_is_integer, "a whole number, at least 2"),
    "memory_map": (_is_flag, _FLAG),
    "where": (lambda value: isinstance(value, str), "a condition as text"),
}
"""Test and description of what an argument takes, by its name. None is always the default."""


Instance = tuple[type | tuple[type, ...], str]
"""The classes of an argument that is an object of ours, and the words that say how to make one."""


def checked_arguments(**instances: Instance) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator of a public function that checks its keywords.

    Args:
        instances: what arguments take that are objects of other rooms, which this one does not know.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        names = set(inspect.signature(function).parameters)

        @wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            check_names(function.__name__, names, kwargs)
            for name, value in kwargs.items():
                if value is None:
                    continue
                if name in ARGUMENTS:
                    check_argument(name, value)
                elif name in instances and not isinstance(value, instances[name][0]):
                    raise _refused(name, value, instances[name][1])
            return function(*args, **kwargs)

        return checked

    return decorate


def check_names(function: str, names: Collection[str], given: Iterable[str]) -> None:
    """Check that a function has the arguments of a call.

    Raises:
        TypeError: it has none of a name; the message says which one is near.
    """
    for name in given:
        if name not in names:
            import difflib  # only a mistake needs it

            near = difflib.get_close_matches(name, sorted(names), 1, 0.6)
            advice = f"did you mean {near[0]}=?" if near else f"it takes {', '.join(sorted(names))}"
            raise TypeError(f"{function}() has no argument {name!r}: {advice}")


def check_argument(name: str, value: object) -> None:
    """Check the value of an argument by :data:`ARGUMENTS`.

    Raises:
        ConfigError: it is of another type than the argument takes.
    """
    fits, wanted = ARGUMENTS[name]
    if not fits(value):
        raise _refused(name, value, wanted)


def _refused(name: str, value: object, wanted: str) -> ConfigError:
    shown = "…" if name == "keys" else without_secrets(repr(value))
    return ConfigError(f"{name}={shown if len(shown) <= 60 else f'{shown[:57]}…'}: give {wanted}")
