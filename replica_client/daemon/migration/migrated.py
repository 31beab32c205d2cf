"""What becomes of another tool's configuration: a configuration of ours, and what it could not take over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import quote

from replica_client.codec.printable import printable
from replica_client.codec.quick_dataclass import dataclass

NOT_KNOWN: Final = "nothing here does this"
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A key that has no counterpart.

    Attributes:
        key: its name.
        why: what to do about it; never its value, which may be a secret.
    """

    key: str
    why: str


class Keys:
    """The keys of a configuration, and which of them were looked at.

    Args:
        values: of them.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._taken: set[str] = set()
        self.not_taken: list[NotTaken] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def take(self, *names: str) -> str:
        """The value of the first of some keys that is there and not empty; ``""`` for none."""
        found = ""
        for name in names:
            if name in self._values:
                self._taken.add(name)
                found = found or self._values[name].strip()
        return found

    def flag(self, *names: str) -> bool | None:
        """The value of a key that is true or false; None where it is neither, which is named, or not there."""
        text = self.take(*names).lower()
        if text not in ("", "true", "false"):
            for name in names:
                if name in self:
                    self.give_up(name, "neither true nor false")
        return {"true": True, "false": False}.get(text)

    def number(self, name: str) -> int:
        """The value of a key that is a whole number; 0 where it is none, which is named, or not there."""
        text = self.take(name)
        if text.isascii() and text.isdecimal():
            return int(text)
        if text:
            self.give_up(name, "no whole number")
        return 0

    def left(self) -> Iterator[str]:
        """The keys that nobody has looked at."""
        yield from (name for name in self._values if name not in self._taken)

    def give_up(self, key: str, why: str = NOT_KNOWN) -> None:
        """Name a key as one that is not taken over."""
        self._taken.add(key)
        self.not_taken.append(NotTaken(key, why))

    def give_up_rest(self, reasons: Mapping[str, str]) -> None:
        """Name all keys that are left, with a reason by what they begin with."""
        for key in list(self.left()):
            why = next((why for start, why in reasons.items() if key.startswith(start)), NOT_KNOWN)
            self.give_up(key, why)


@dataclass
class Migrated:
    """A configuration of ours.

    Attributes:
        tool: the other's name.
        source: keys of ``[[source]]``.
        sink: keys of ``[[source.sink]]``.
        daemon: keys of ``[daemon]``.
        transforms: keys of each ``[[source.transform]]``.
        variables: names of environment variables that it reads, and what each holds.
        remarks: what to look at before it runs.
        not_taken: keys without a counterpart.
    """

    tool: str
    source: dict[str, Any] = field(default_factory=dict)
    sink: dict[str, Any] = field(default_factory=dict)
    daemon: dict[str, Any] = field(default_factory=dict)
    transforms: list[dict[str, Any]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    not_taken: list[NotTaken] = field(default_factory=list)

    def secret(self, value: str, name: str, what: str) -> str:
        """A reference that stands for a secret: to the variable that it was already, or to a new one.

        Args:
            value: as the other tool has it.
            name: of the variable where it was none.
            what: it holds.
        """
        found = _VARIABLE.fullmatch(value)
        name = found[1] if found else name
        self.variables[name] = what
        return f"${{{name}}}"

    def set_url(self, scheme: str, user: str, host: str, port: str) -> None:
        """The source's URL; where a part is not known, a variable stands for it."""
        if not host:
            host = self.secret("", "SOURCE_HOST", "the source's host")
        elif ":" in host and not host.startswith("["):
            host = f"[{host}]"
        user = quote(user, safe="") if user else self.secret("", "SOURCE_USER", "the user's name")
        self.source["url"] = f"{scheme}://{user}@{host}{f':{port}' if port else ''}/"

    def no_table(self) -> list[str]:
        """Patterns where the other tool chooses tables by what no pattern says: more than it takes must not be read."""
        self.remarks.append("Nothing is read until tables name what you want.")
        return ["fill_in.these_tables"]

    def text(self) -> str:
        """The file."""
        lines = [f"# Made of a configuration of {self.tool}.", "#"]
        for name, what in self.variables.items():
            lines.append(f"# The environment variable {name} holds {what}.")
        lines += [f"# {printable(remark)}" for remark in self.remarks]
        if self.not_taken:
            lines.append("# Not taken over:")
            lines += [f"#   {printable(one.key)}: {one.why}" for one in self.not_taken]
        lines += ["", "[daemon]", *_table({"state": "state", **self.daemon})]
        lines += ["", "[[source]]", *_table(self.source)]
        for transform in self.transforms:
            lines += ["", "[[source.transform]]", *_table(transform)]
        lines += ["", "[[source.sink]]", *_table(self.sink)]
        return "\n".join(lines) + "\n"


def name_of(text: str, default: str) -> str:
    """A text as the name of a source."""
    return _NAME.sub("_", text).strip("_.-")[:60] or default


def _table(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_key(key)} = {_value(value)}" for key, value in values.items())


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items())
        return "{ " + inside + " }" if inside else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
