"""Column types of the proof of truth: their SQL, literals, the server's text of a value, and one form to compare in.

The expected form is made of text that the server gives (``CAST``, ``HEX``), the delivered one of the value as a reader
gives it. Neither uses a rule of the package.
"""

from __future__ import annotations

import base64
import datetime
import json
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from replica_client import ABSENT


class _Unknown:
    def __repr__(self) -> str:
        return "?"


UNKNOWN = _Unknown()
"""A value that nothing tells: left out of an image, or a difference of a document."""

_LETTERS = ("abcXYZ 019", "a'b\\\"%_`", "éßøÅñ", "жыЯ", "表漢字あ", "😀𝄞", "\t\n\r", "~^{|}[]@#")


@dataclass(frozen=True)
class Kind:
    """A column type.

    Attributes:
        family: how its values are compared.
        sql: its definition.
        literal: gives a random literal.
        select: SQL of its text, with {} for the column.
    """

    family: str
    sql: str
    literal: Callable[[random.Random], str]
    select: str


def text(rng: random.Random, longest: int = 8) -> str:
    """Return random text."""
    letters = rng.choice(_LETTERS) + rng.choice(_LETTERS)
    return "".join(rng.choice(letters) for _ in range(rng.randint(0, longest)))


def quoted_text(value: str) -> str:
    """Return text as a literal that no session's setting changes."""
    return f"CONVERT(x'{value.encode().hex()}' USING utf8mb4)" if value else "''"


def _document(rng: random.Random, depth: int = 2) -> Any:
    if depth and rng.random() < 0.7:
        if rng.random() < 0.5:
            return {f"k{n}": _document(rng, depth - 1) for n in range(rng.randint(0, 4))}
        return [_document(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    return rng.choice((0, 1, -5, 1 << 40, (1 << 63) - 1, 0.5, -1.25e30, True, False, text(rng), ""))


def _json(rng: random.Random) -> str:
    made = {"a": _document(rng), "b": _document(rng, 1), "pad": "x" * rng.choice((0, 0, 300))}
    return f"CAST({quoted_text(json.dumps(made, ensure_ascii=False))} AS JSON)"


def _numbers(rng: random.Random, flavor: str) -> list[Kind]:
    bits = rng.choice((8, 16, 24, 32, 64))
    name = {8: "TINYINT", 16: "SMALLINT", 24: "MEDIUMINT", 32: "INT", 64: "BIGINT"}[bits]
    signed = rng.random() < 0.5
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def whole(rng: random.Random) -> str:
        return str(rng.choice((low, high, 0, 1, rng.randint(low, high))))

    digits, scale = rng.choice(((5, 2), (10, 0), (30, 10), (65, 30), (9, 9)))

    def decimal(rng: random.Random) -> str:
        number = rng.randint(-(10**digits) + 1, 10**digits - 1)
        return str(Decimal(number).scaleb(-scale)) if rng.random() < 0.9 else "0"

    def real(rng: random.Random) -> str:
        return rng.choice(("0", "-0e0", "0.1", "1e-30", f"{rng.uniform(-1e6, 1e6)!r}", "16777217"))

    wide = rng.choice((1, 7, 8, 33, 64))
    return [
        Kind("int", name + ("" if signed else " UNSIGNED"), whole, "CAST({} + 0 AS CHAR)"),
        Kind("decimal", f"DECIMAL({digits},{scale})", decimal, "CAST({} AS CHAR)"),
        Kind("float", "FLOAT", real, "{} * 1e0"),
        Kind("double", "DOUBLE", real, "{} * 1e0"),
        Kind("int", f"BIT({wide})", lambda rng: str(rng.getrandbits(wide)), "CAST({} + 0 AS CHAR)"),
        Kind(
            "int",
            "YEAR",
            lambda rng: rng.choice(("0", "1901", "2155", "2026")),
            "CAST({} + 0 AS CHAR)",
        ),
    ]


def _times(rng: random.Random) -> list[Kind]:
    digits = rng.randint(0, 6)

    def moment(rng: random.Random) -> str:
        if rng.random() < 0.1:
            return "'0000-00-00 00:00:00'"
        year = rng.choice((1971, 1999, 2026, 2037))
        day = f"{year}-{rng.randint(1, 12)}-{rng.randint(1, 28)}"
        return f"'{day} {rng.randint(0, 23)}:5:6.{rng.randint(0, 999999):06d}'"

    def time(rng: random.Random) -> str:
        sign = rng.choice(("", "-"))
        return f"'{sign}{rng.choice((0, 5, 23, 838))}:{rng.randint(0, 58)}:7.{rng.randint(0, 999999):06d}'"

    null = "TIMESTAMP({}) NULL".format
    return [
        Kind("date", "DATE", lambda rng: moment(rng)[:-1].split()[0] + "'", "CAST({} AS CHAR)"),
        Kind("time", f"TIME({digits})", time, "CAST({} AS CHAR)"),
        Kind("time", f"DATETIME({digits})", moment, "CAST({} AS CHAR)"),
        Kind("time", null(digits), moment, "CAST({} AS CHAR)"),
    ]


def _strings(rng: random.Random, charsets: Sequence[str]) -> list[Kind]:
    charset = rng.choice(charsets)
    size = rng.choice((1, 3, 20, 60))

    def literal(rng: random.Random) -> str:
        return quoted_text(text(rng, 20))

    def octets(rng: random.Random) -> str:
        return f"x'{rng.randbytes(rng.randint(0, 20)).hex()}'" if rng.random() < 0.9 else "''"

    shown = "HEX(CONVERT({} USING utf8mb4))"
    labels = rng.sample(("a", "B c", "it''s", "é", "жы", "z"), 4)
    listed = ", ".join(f"'{label}'" for label in labels)

    def label(rng: random.Random) -> str:
        return str(rng.randint(1, 4))

    return [
        Kind("text", f"CHAR({size}) CHARACTER SET {charset}", literal, shown),
        Kind("text", f"VARCHAR({size * 5}) CHARACTER SET {charset}", literal, shown),
        Kind("text", f"VARCHAR({size})", literal, shown),
        Kind("text", f"{rng.choice(('TEXT', 'TINYTEXT', 'LONGTEXT'))} CHARACTER SET {charset}", literal, shown),
        Kind("text", "TEXT", literal, shown),
        Kind("bytes", f"BINARY({size})", octets, "HEX({})"),
        Kind("bytes", f"VARBINARY({size})", octets, "HEX({})"),
        Kind("bytes", rng.choice(("BLOB", "LONGBLOB", "TINYBLOB")), octets, "HEX({})"),
        Kind("label", f"ENUM({listed}) CHARACTER SET utf8mb4", label, shown),
        Kind("label", f"SET({listed})", lambda rng: str(rng.randint(0, 15)), shown),
    ]  # fmt: skip


def kinds(
    rng: random.Random, flavor: str, version: Sequence[int], charsets: Sequence[str]
) -> list[Kind]:
    """Return column types of a server, with random lengths and character sets."""
    found = [*_numbers(rng, flavor), *_times(rng), *_strings(rng, charsets)]

    def point(rng: random.Random) -> str:
        return f"ST_GeomFromText('POINT({rng.randint(-9, 9)} {rng.randint(-9, 9)})', {rng.choice((0, 0, 3857))})"

    found.append(Kind("geometry", rng.choice(("POINT", "GEOMETRY")), point, "HEX({})"))
    version = tuple(version)
    if flavor == "mysql" and version >= (5, 7):
        found += [Kind("json", "JSON", _json, "CAST({} AS CHAR)")] * 3
    if flavor == "mysql" and version >= (9, 0):
        found.append(_vector("STRING_TO_VECTOR"))
    if flavor == "mariadb":
        address = "'::{:x}'".format
        found.append(
            Kind("word", "INET6", lambda rng: address(rng.getrandbits(16)), "CAST({} AS CHAR)")
        )
        hexed = "'{:032x}'".format
        found.append(
            Kind("word", "UUID", lambda rng: hexed(rng.getrandbits(128)), "CAST({} AS CHAR)")
        )
        found.append(
            Kind(
                "text",
                "JSON",
                lambda rng: f"'{json.dumps(_document(rng, 0))}'",
                "HEX(CONVERT({} USING utf8mb4))",
            )
        )
        found.append(
            Kind("word", "INET4", lambda rng: f"'10.1.2.{rng.randint(0, 255)}'", "CAST({} AS CHAR)")
        )
        found.append(
            Kind(
                "text",
                "VARCHAR(50) COMPRESSED",
                lambda rng: quoted_text(text(rng, 30)),
                "HEX(CONVERT({} USING utf8mb4))",
            )
        )
    if flavor == "mariadb" and version >= (11, 7):
        found.append(_vector("VEC_FromText"))
    return found  # fmt: skip


def _vector(function: str) -> Kind:
    def literal(rng: random.Random) -> str:
        return f"{function}('[{rng.randint(-5, 5)}, {rng.uniform(-1, 1):.5f}, 0.1]')"

    return Kind("vector", "VECTOR(3)", literal, "HEX({})")


# One form.


def selected(family: str, value: str | None) -> Any:
    """Return the server's text of a value in the form to compare."""
    if value is None:
        return None
    if family in ("text", "label"):
        return bytes.fromhex(value).decode()
    if family in ("bytes", "geometry", "vector"):
        return bytes.fromhex(value)
    return delivered(family, value)


def delivered(family: str, value: Any) -> Any:
    """Return a delivered value in the form to compare; what it is not is a ``ValueError``."""
    if value is None or value is ABSENT:
        return UNKNOWN if value is ABSENT else None
    return _FORMS[family](value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise ValueError(f"no text: {value!r}")


def _label(value: Any) -> Any:
    """Return a label; MySQL before 8.0 may lose those in wide character sets, and then readers give its number."""
    if isinstance(value, str):
        return UNKNOWN if value.isdecimal() else str.__str__(value)
    known = getattr(value, "label", getattr(value, "labels", None))
    return UNKNOWN if known is None else str(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["$binary"], validate=True)
    return bytes(memoryview(value))


def _geometry(value: Any) -> bytes:
    # An empty value, which ADD COLUMN … NOT NULL of MySQL 5.6 gives, has no SRID.
    if isinstance(value, dict) and "wkb" in value:
        return bytes(value["wkb"]) and struct.pack("<I", value["srid"]) + bytes(value["wkb"])
    if isinstance(value, dict):
        data = base64.b64decode(value["$wkb"], validate=True)
        return data and struct.pack("<I", int(value["srid"])) + data
    if hasattr(value, "wkb"):
        return value.wkb and struct.pack("<I", value.srid) + bytes(value.wkb)
    return bytes(memoryview(value))


def _vector_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    numbers = json.loads(value) if isinstance(value, str) else list(value)
    return struct.pack(f"<{len(numbers)}f", *numbers)


def _document_form(value: Any) -> Any:
    if isinstance(value, tuple):
        return UNKNOWN  # differences of a document that no image has
    shown = value.text if hasattr(value, "text") else value
    if not isinstance(shown, str):
        shown = json.dumps(shown)
    document = json.loads(shown)
    if isinstance(document, dict) and "$json_diff" in document:
        return UNKNOWN  # the same in Arrow, as text
    return json.dumps(document, sort_keys=True)


def _moment(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None).isoformat(" ")
    elif isinstance(value, datetime.timedelta):
        whole = abs(value) // datetime.timedelta(microseconds=1)
        seconds, fraction = divmod(whole, 1_000_000)
        sign = "-" if value < datetime.timedelta() else ""
        value = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"
    shown = str(value)
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


_FORMS: dict[str, Callable[[Any], Any]] = {
    "int": lambda value: int(value),
    "decimal": lambda value: format(Decimal(value), "f"),
    "float": lambda value: struct.pack("<f", float(value)).hex(),
    "double": lambda value: struct.pack("<d", float(value)).hex(),
    "date": lambda value: str(value),
    "time": _moment,
    "text": _text,
    "label": _label,
    "word": lambda value: str(value).lower(),
    "bytes": _bytes,
    "geometry": _geometry,
    "vector": _vector_bytes,
    "json": _document_form,
}
