"""A migrated configuration: properties files and patterns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.history import SchemaHistory

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
    """The keys of a configuration, and which of them were used.

    Args:
        values: the values by key.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._taken: set[str] = set()
        self.not_taken: list[NotTaken] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def take(self, *names: str) -> str:
        """Return the first non-empty value among some keys, or ``""``; mark them as used."""
        found = ""
        for name in names:
            if name in self._values:
                self._taken.add(name)
                found = found or self._values[name].strip()
        return found

    def flag(self, *names: str) -> bool | None:
        """Return the value of a boolean key; None if it is missing or malformed.

        A malformed value is reported in :attr:`not_taken`.
        """
        text = self.take(*names).lower()
        if text not in ("", "true", "false"):
            for name in names:
                if name in self:
                    self.give_up(name, "neither true nor false")
        return {"true": True, "false": False}.get(text)

    def number(self, name: str) -> int:
        """Return the value of an integer key; 0 if it is missing or malformed.

        A malformed value is reported in :attr:`not_taken`.
        """
        text = self.take(name)
        if text.isascii() and text.isdecimal():
            return int(text)
        if text:
            self.give_up(name, "no whole number")
        return 0

    def left(self) -> Iterator[str]:
        """Yield the keys that were not used."""
        yield from (name for name in self._values if name not in self._taken)

    def give_up(self, key: str, why: str = NOT_KNOWN) -> None:
        """Report a key as not taken over."""
        self._taken.add(key)
        self.not_taken.append(NotTaken(key, why))

    def give_up_rest(self, reasons: Mapping[str, str]) -> None:
        """Report all unused keys as not taken over, with reasons by prefix."""
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
        unprotected: keys that hide values or rows and could not be converted.
        schema: what tables looked like at ``start``; None: not known.
    """

    tool: str
    source: dict[str, Any] = field(default_factory=dict)
    sink: dict[str, Any] = field(default_factory=dict)
    daemon: dict[str, Any] = field(default_factory=dict)
    transforms: list[dict[str, Any]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    not_taken: list[NotTaken] = field(default_factory=list)
    unprotected: list[str] = field(default_factory=list)
    schema: SchemaHistory | None = None

    def finish(self, keys: Keys) -> None:
        """Take the keys that were given up; read nothing if values or rows would be delivered that were hidden."""
        self.not_taken = keys.not_taken
        if self.unprotected:
            names = ", ".join(dict.fromkeys(self.unprotected))
            self.remarks.append(f"{names}: hides values or rows, and is not taken over.")
            self.source["tables"] = self.no_table()

    def drop(self, columns: Mapping[str, list[str]]) -> None:
        """Leave columns out of tables, by pattern."""
        for table, names in columns.items():
            known = next((one for one in self.transforms if one["tables"] == [table]), None)
            if known is None:
                known = {"tables": [table], "keep": ["*"]}
                self.transforms.append(known)
            known["drop"] = list(dict.fromkeys([*known.get("drop", ()), *names]))

    def secret(self, value: str, name: str, what: str) -> str:
        """Return a reference to the environment variable that holds a secret.

        Args:
            value: as the other tool has it; a reference to a variable is kept.
            name: of the new variable, if the value is no reference.
            what: the description of what the variable holds.
        """
        found = _VARIABLE.fullmatch(value)
        name = found[1] if found else name
        self.variables[name] = what
        return f"${{{name}}}"

    def set_url(self, scheme: str, user: str, host: str, port: str) -> None:
        """Set the source's URL, with a variable in place of an unknown host or user."""
        if not host:
            host = self.secret("", "SOURCE_HOST", "the source's host")
        elif ":" in host and not host.startswith("["):
            host = f"[{host}]"
        user = quote(user, safe="") if user else self.secret("", "SOURCE_USER", "the user's name")
        self.source["url"] = f"{scheme}://{user}@{host}{f':{port}' if port else ''}/"

    def no_table(self) -> list[str]:
        """Return a pattern that matches no table, and remark that tables are to be filled in.

        Used where no pattern can express the other tool's choice: more than that must not be read.
        """
        self.remarks.append("Nothing is read until tables names a table.")
        return ["fill_in.these_tables"]

    def text(self) -> str:
        """Return the text of the configuration file."""
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
    """Return a text as a valid name of a source."""
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


_PLAIN: Final = re.compile(r"[\w$-]+")
_ANY: Final = ("\\w*", "\\w+", "[^.]*", "[^.]+", ".*", ".+")


def list_of(text: str) -> list[str]:
    """Split a list at commas outside brackets."""
    parts, depth, part = [], 0, ""
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth <= 0:
            parts.append(part)
            part = ""
        else:
            part += char
    return [one.strip() for one in (*parts, part) if one.strip()]


def names_of(expression: str, parts: int) -> list[list[str]] | None:
    r"""Convert a regular expression to patterns of dotted names.

    Args:
        expression: matches whole names such as ``shop\.orders``, in any letter case.
        parts: how many names.

    Returns:
        One list of names for each alternative; None if no pattern can express it.
    """
    text = expression.strip().removeprefix("^").removesuffix("$")
    if text.startswith("(") and text.endswith(")") and not set("()") & set(text[1:-1]):
        text = text[1:-1].removeprefix("?:")
    if "(" in text:
        return _grouped(text, parts)
    if text in (".*", ".+", ".*\\..*", ".*[.].*"):
        return [["*"] * parts]
    found = []
    for one in text.split("|"):
        names = [_pattern(name) for name in re.split(r"\\\.|\[\.\]", one)]
        if len(names) == 1 and parts > 1:
            # An unescaped point matches any character, but is meant as a point in practice.
            names = [_pattern(name) for name in re.split(r"\.(?![*+?])", one)]
        given = [name for name in names if name is not None]
        if len(given) != parts or len(names) != parts:
            return None
        found.append(given)
    return found


def _grouped(text: str, parts: int) -> list[list[str]] | None:
    r"""Convert each alternative of a group such as ``shop\.(orders|items)``."""
    match = re.fullmatch(r"([^()]*)\((?:\?:)?([^()]*)\)([^()]*)", text)
    if match is None or "|" in match[1] + match[3]:
        return None
    found: list[list[str]] = []
    for one in match[2].split("|"):
        names = names_of(match[1] + one + match[3], parts)
        if names is None:
            return None
        found += names
    return found


def _pattern(text: str) -> str | None:
    """Convert the expression of one name; None if no pattern can express it."""
    made = ""
    while text:
        piece = next((one for one in _ANY if text.startswith(one)), None)
        if piece is not None:
            if piece.endswith("+"):
                made += "?"
            made += "*"
            text = text[len(piece) :]
            continue
        plain = _PLAIN.match(text)
        if plain is not None:
            # A quantifier would apply to the last character alone.
            if text[plain.end() : plain.end() + 1] in ("*", "+", "?", "{"):
                return None
            made += plain[0]
            text = text[plain.end() :]
            continue
        if text[0] == "\\" and text[1:2] in ("$", "-", "_"):
            made += text[1]
            text = text[2:]
            continue
        return None
    return made or None


_MAX_BYTES: Final = 16 << 20
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY_END: Final = re.compile(r"(?<!\\)(?:\\\\)*([=: \t\f])")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)


def read_bounded(path: Path) -> bytes:
    """Read a file of limited size.

    Raises:
        ConfigError: the file is too large to be a configuration.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path}: more than {_MAX_BYTES >> 20} MiB; this is not a configuration")
    return data


def read_properties(path: Path) -> dict[str, str]:
    """Read a properties file, or a connector's JSON (flat, or below ``config``).

    Raises:
        ConfigError: it is neither; the message says where, and shows no value.
        OSError: the file cannot be read.
    """
    try:
        text = read_bounded(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: this is not UTF-8 text") from None
    if not text.lstrip().startswith("{"):
        return dict(_lines(text))
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "it"
        raise ConfigError(f"{path}: {where}: this is not JSON") from None
    if isinstance(found, Mapping) and isinstance(found.get("config"), Mapping):
        found = {"name": found.get("name", ""), **found["config"]}
    made = {}
    for key, value in found.items():
        if isinstance(value, Mapping | list):
            raise ConfigError(f"{path}: {key}: a connector's keys have texts, not tables")
        made[key] = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return made


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in _logical(text):
        found = _KEY_END.search(line)
        if found is None:
            yield _plain(line), ""
            continue
        key, rest = line[: found.start(1)], line[found.start(1) :].lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        yield _plain(key), _plain(rest)


def _logical(text: str) -> Iterator[str]:
    """Yield lines without comments; join a line that ends in a backslash with the next."""
    whole = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not whole and (not line or line[0] in "#!"):
            continue
        whole += line
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
            continue
        yield whole
        whole = ""
    if whole:
        yield whole


def _plain(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return _ESCAPE.sub(value, text)
