"""Statements in other projects' tests: string literals of Go, Java, Kotlin and Rust, and files of SQL.

A folder has a subfolder for each project; nothing of it is part of this repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SOURCES = (".go", ".java", ".kt", ".rs")
_SQL = (".sql", ".ddl", ".txt", ".test", ".g4")
_LARGEST = 4 << 20
_MOST = 40
_LITERALS = {
    ".go": re.compile(r'`([^`]*)`|"((?:[^"\\\n]|\\.)*)"'),
    ".java": re.compile(r'"""\n?(.*?)"""|"((?:[^"\\\n]|\\.)*)"', re.DOTALL),
    ".kt": re.compile(r'"""(.*?)"""|"((?:[^"\\\n]|\\.)*)"', re.DOTALL),
    ".rs": re.compile(r'r#+"(.*?)"#+|"((?:[^"\\]|\\.)*)"', re.DOTALL),
}
_JOINED = re.compile(r"\s*\+\s*\Z")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b"}
_COMMENTS = r"(?:\s|/\*(?![!M]).*?\*/|--[ \t][^\n]*\n|#[^\n]*\n)*"
_DDL = re.compile(
    _COMMENTS + r"(?:/\*M?!\d*\s*)?(?:SET\s+STATEMENT\b|(?:CREATE|ALTER|DROP|RENAME|TRUNCATE)\b"
    r"(?:\s+(?:OR|REPLACE|TEMPORARY|IGNORE|ONLINE|OFFLINE|UNIQUE|FULLTEXT|SPATIAL)\b|\s*/\*.*?\*/)*"
    r"\s*(?:TABLES?|DATABASE|SCHEMA|SEQUENCE|INDEX|`)\b)",
    re.IGNORECASE | re.DOTALL,
)
_FOREIGN = re.compile(
    r"\b(?:mysql|sys|information_schema|performance_schema)`?\s*\.|TABLESPACE"
    r"|(?:DATABASE|SCHEMA)\s+(?:IF\s+\w+\s+(?:EXISTS\s+)?)?`?(?:mysql|sys|information_schema|performance_schema)\b"
    r"|DATA\s+DIRECTORY|INDEX\s+DIRECTORY",
    re.IGNORECASE,
)
_SEMICOLON = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`|/\*.*?\*/|;", re.DOTALL
)


@dataclass
class Source:
    """Statements of a file, in its order.

    Attributes:
        project: the subfolder's name.
        path: of the file, in the folder.
        statements: its statements; few enough for one session.
    """

    project: str
    path: str
    statements: list[str]


def sources(folder: Path) -> Iterator[Source]:
    """Every file's statements; those that differ only in names of tables, numbers and spaces are given once."""
    seen: set[str] = set()
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (*_SOURCES, *_SQL) or not path.is_file():
            continue
        if path.stat().st_size > _LARGEST:
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        found = []
        for one in statements(text, path.suffix):
            if (form := _form(one)) not in seen:
                seen.add(form)
                found.append(one)
        name = path.relative_to(folder)
        for at in range(0, len(found), _MOST):
            yield Source(name.parts[0], str(name), found[at : at + _MOST])


def _form(statement: str) -> str:
    text = re.sub(r"\s+", " ", statement.lower())
    text = re.sub(r"(table (?:if (?:not )?exists )?)[`\w.$]+", r"\1t", text)
    return re.sub(r"\d+", "0", text)


def statements(text: str, suffix: str) -> list[str]:
    """The DDL statements of a file, each once."""
    texts = [text] if suffix in _SQL else list(literals(text, suffix))
    found: dict[str, None] = {}
    for one in texts:
        if not re.search(r"CREATE|ALTER|DROP|RENAME|TRUNCATE", one, re.IGNORECASE):
            continue
        for statement in split(one):
            statement = re.sub(r"%[sdv]|\{\d*\}|\$\{\w+\}|<\w+>", "t1", statement).strip()
            if _DDL.match(statement) and not _FOREIGN.search(statement) and len(statement) < 60000:
                found[statement] = None
    return list(found)


def literals(text: str, suffix: str) -> Iterator[str]:
    """The string literals of a program; those that a plus joins are one."""
    parts: list[str] = []
    end = 0
    for match in _LITERALS[suffix].finditer(text):
        if parts and not _JOINED.match(text[end : match.start()]):
            yield "".join(parts)
            parts = []
        raw, escaped = match.groups()
        parts.append(raw if raw is not None else _unescaped(escaped or ""))
        end = match.end()
    if parts:
        yield "".join(parts)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


def split(text: str) -> Iterator[str]:
    """Return the statements between semicolons that are in no string, name or comment."""
    text = re.sub(r"(?m)^\s*(?:--[ \t].*|--|DELIMITER.*)$", "", text)
    start = 0
    for match in _SEMICOLON.finditer(text):
        if match[0] == ";":
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]
