"""The module that ``import cython`` gives to a hot module that runs as plain Python.

The hot modules are written in Cython's pure Python mode. Compiled they need nothing of Cython; as
Python they use the names below, which then have no effect. :mod:`replica_client._compiled` gives
this module to them, so that Cython need not be installed where the package is used.

Types that occur only in annotations are the results of :func:`__getattr__`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

compiled = False
NULL = None


class CType:
    """A C type: something to annotate with, to declare with, and to cast to.

    Args:
        convert: what a cast to it does to a value.
    """

    def __init__(self, convert: Callable[[Any], Any] | None = None) -> None:
        self._convert = convert

    def __call__(self, value: Any = 0) -> Any:
        return value if self._convert is None else self._convert(value)

    def __getitem__(self, size: Any) -> CType:
        return self


_INTEGERS = frozenset(
    (
        *("char", "schar", "uchar", "short", "ushort", "int", "uint", "long", "ulong"),
        *("longlong", "ulonglong", "Py_ssize_t", "size_t"),
    )
)
_REALS = ("float", "double", "longdouble")


def _mark(decorated: _T) -> _T:
    """Return a decorated function or class unchanged."""
    return decorated


def _option(*arguments: Any, **options: Any) -> Callable[[_T], _T]:
    """Return a decorator that changes nothing."""
    return lambda decorated: decorated


class _Block:
    """``with cython.gil``, and ``with cython.nogil``, which is a decorator, too: they change nothing."""

    def __call__(self, decorated: _T) -> _T:
        return decorated

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


gil = nogil = _Block()
cclass = cfunc = ccall = final = inline = no_gc = no_gc_clear = _mark
boundscheck = wraparound = cdivision = nonecheck = overflowcheck = initializedcheck = _option
locals = returns = exceptval = freelist = infer_types = annotation_typing = profile = _option


def declare(c_type: Any = None, value: Any = None, **names: Any) -> Any:
    """Return the value of a declared variable."""
    return value


def cast(c_type: Any, value: Any, typecheck: bool = False) -> Any:
    """Return the value, converted where the type is a number."""
    return c_type(value) if isinstance(c_type, CType) else value


def __getattr__(name: str) -> Any:  # a CType; Any can annotate
    if name.startswith("__") or name in ("cimports", "address", "sizeof", "parallel"):
        raise AttributeError(f"{name} is for compiled code only")
    if name in _INTEGERS:
        made = CType(int)
    elif name in _REALS:
        made = CType(float)
    elif name == "bint":
        made = CType(bool)
    else:
        made = CType()
    globals()[name] = made
    return made
