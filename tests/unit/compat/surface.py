"""The public surface of a package: names, arguments, methods and attributes, found by looking at it.

Also a program, for an environment that has the package and nothing of ours::

    python surface.py pymysqlreplication > surface.json
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import sys
import textwrap
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

Surface = dict[str, dict[str, dict[str, Any]]]
"""By module and name: what it is, with ``arguments``, ``members`` or ``value``."""

_PLAIN = (int, str, bytes, float)


def surface_of(package: str, name: str | None = None) -> Surface:
    """Look at all modules of a package but its tests.

    Args:
        package: where it is.
        name: what its modules are called in the surface, where that is another one.
    """
    root = importlib.import_module(package)
    found = [one.name for one in pkgutil.walk_packages(root.__path__, f"{package}.")]
    return {
        (name or package) + module.removeprefix(package): _module(
            importlib.import_module(module), package
        )
        for module in (package, *found)
        if ".tests" not in module
    }


def _is_of(thing: Any, home: str) -> bool:
    module = getattr(thing, "__module__", None)
    return isinstance(module, str) and (module + ".").startswith(home.split(".")[0] + ".")


def _module(module: ModuleType, home: str) -> dict[str, dict[str, Any]]:
    found = {}
    for name, thing in vars(module).items():
        if name.startswith("_") or isinstance(thing, ModuleType):
            continue
        if isinstance(thing, type):
            if _is_of(thing, home):
                found[name] = _class(thing, home)
        elif callable(thing):
            if _is_of(thing, home):
                found[name] = {"kind": "function", "arguments": arguments_of(thing)}
        elif isinstance(thing, _PLAIN):
            found[name] = {"kind": "value", "value": repr(thing)}
        elif isinstance(thing, (list, tuple, dict, set, frozenset)):
            found[name] = {"kind": "value"}
    return found


def arguments_of(function: Any) -> list[str] | None:
    """Names of arguments, ``=`` behind those with a default; None: nobody knows."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        + one.name
        + ("=" if one.default is not one.empty else "")
        for one in parameters
        if one.name not in ("self", "cls")
    ]


def _class(kind: type, home: str) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not _is_of(base, home):
            continue
        for name in (*_assigned(base), *_declared(base)):
            members.setdefault(name, {"kind": "attribute"})
        for name, thing in vars(base).items():
            if name.startswith("_"):
                continue
            inner = getattr(thing, "__func__", thing)
            if (
                isinstance(inner, FunctionType)
                or type(inner).__name__ == "cython_function_or_method"
            ):
                members[name] = {"kind": "method", "arguments": arguments_of(inner)}
            else:
                members[name] = {"kind": "attribute"}
    found: dict[str, Any] = {"kind": "class", "home": kind.__module__, "members": members}
    # Those of an enumeration are Python's, and others in each version.
    if not issubclass(kind, (BaseException, Enum)):
        found["arguments"] = arguments_of(kind)
    return found


def _assigned(kind: type) -> list[str]:
    """Attributes that a class's methods give to ``self``."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return []
    found = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
            and not node.attr.startswith("_")
        ):
            found[node.attr] = None
    return list(found)


def _declared(kind: type) -> list[str]:
    """Attributes that a class's annotations name."""
    return [name for name in inspect.get_annotations(kind) if not name.startswith("_")]


def missing(theirs: Surface, ours: Surface) -> list[str]:
    """What ours lacks of theirs, a line each: names, arguments, members, other values."""
    lines = []
    for module, names in theirs.items():
        if module not in ours:
            lines.append(f"module {module}")
            continue
        for name, thing in names.items():
            where = f"{module}.{name}"
            mine = ours[module].get(name)
            if mine is None:
                lines.append(f"{thing['kind']} {where}")
            elif thing.get("value") != mine.get("value") and "value" in thing:
                lines.append(f"value of {where}: {thing['value']}, not {mine.get('value')}")
            elif thing.get("home", module) == module:
                # It is the same wherever else it is found.
                lines += _lacking(where, thing, mine)
    return lines


def _lacking(where: str, theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    lines = []
    wanted, given = theirs.get("arguments"), ours.get("arguments")
    if wanted is not None and given is not None and not _takes(given, wanted):
        lines.append(f"arguments of {where}: {wanted}, not {given}")
    for name, member in theirs.get("members", {}).items():
        mine = ours.get("members", {}).get(name)
        if mine is None:
            lines.append(f"{member['kind']} {where}.{name}")
        else:
            lines += _lacking(f"{where}.{name}", member, mine)
    return lines


def _takes(given: list[str], wanted: list[str]) -> bool:
    """Whether every call that the wanted arguments allow is one that the given ones allow."""
    takes_more = {mark for one in given if (mark := one[: len(one) - len(one.lstrip("*"))])}
    for at, one in enumerate(wanted):
        if one.startswith("*"):
            continue
        if at < len(given) and given[at].rstrip("=") == one.rstrip("="):
            if one.endswith("=") and not given[at].endswith("="):
                return False
        elif "**" not in takes_more:
            return False
    return all(
        one.startswith("*") or one.endswith("=") or one in wanted or f"{one}=" in wanted
        for one in given
    )


if __name__ == "__main__":
    json.dump(surface_of(sys.argv[1]), sys.stdout, indent=1, sort_keys=True)
