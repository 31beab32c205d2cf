"""Random text, bytes, ENUM and SET columns, over every character set of a server."""

import random
from functools import partial
from typing import Any

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.value_types import EnumValue
from tests.integration.values_charsets import encoded, labels, repertoire
from tests.integration.values_kinds import Draws, Kind, Literal, Maker, hex_text, quoted

_SIZES = (0, 1, 10, 63, 64, 85, 86, 127, 128, 255)
_LONG_SIZES = (256, 400)
_BLOBS = ("TINY", "", "MEDIUM", "LONG")
_LARGE = {"TEXT": 20_000, "MEDIUMTEXT": 70_000, "LONGTEXT": 70_000}


def text_literal(draws: Draws, charset: str, most: int, large: int = 0) -> Literal:
    """Text of the set's characters; now and then as many as `large`."""
    known = repertoire(draws.rng, charset)

    def literal(rng: random.Random) -> str:
        size = rng.choice((0, 1, most, rng.randint(0, most)))
        text = "".join(rng.choices(known, k=size))
        if rng.random() < 0.2:
            text = text[:-2] + "  "
        text = text[:most]
        if large and rng.random() < 0.01:
            return f"REPEAT({quoted(rng.choice(known).encode(), 'utf8mb4')}, {large})"
        if rng.random() < 0.3:
            try:
                return quoted(encoded(text, charset), charset)
            except EncodeError:
                pass
        return quoted(text.encode(), "utf8mb4")

    return literal


def binary_literal(most: int, large: int = 0) -> Literal:
    def literal(rng: random.Random) -> str:
        if large and rng.random() < 0.01:
            return f"REPEAT(X'00ff', {large // 2})"
        data = rng.randbytes(rng.choice((0, 1, most, rng.randint(0, most))))
        if rng.random() < 0.5:
            data = (data[: max(0, most - 3)] + b"\0 \0")[:most]
        return quoted(data)

    return literal


def _text(name: str, suffix: str, draws: Draws) -> Kind:
    type_name = name + suffix
    charset = draws.charset(type_name)
    size, most = "", 60
    if not name.endswith("TEXT"):
        sizes = _SIZES + _LONG_SIZES if name == "VARCHAR" else _SIZES
        most = draws.card(f"{type_name} sizes", sizes[2:] if suffix else sizes)
        size = f"({most})"
    return Kind(
        type_name,
        f"{name}{size}{suffix} CHARACTER SET {charset}",
        text_literal(draws, charset, most, _LARGE.get(name, 0)),
        "HEX(CONVERT({} USING utf8mb4))",
        hex_text,
        charset=charset,
        can_copy=not suffix,
    )


def _bytes(name: str, suffix: str, draws: Draws) -> Kind:
    size, most = "", 200
    if name.endswith("BINARY"):
        sizes = _SIZES + _LONG_SIZES if name == "VARBINARY" else _SIZES
        most = draws.card(f"{name}{suffix} sizes", sizes[2:] if suffix else sizes)
        size = f"({most})"
    large = _LARGE.get(name.replace("BLOB", "TEXT"), 0)
    return Kind(
        name + suffix,
        name + size + suffix,
        binary_literal(most, large),
        "HEX({})",
        hex_text,
        charset="binary",
        can_copy=not suffix,
    )


def strings() -> dict[str, Maker]:
    makers: dict[str, Maker] = {}
    for name in ("CHAR", "VARCHAR", *(f"{size}TEXT" for size in _BLOBS)):
        makers[name] = partial(_text, name, "")
    for name in ("BINARY", "VARBINARY", *(f"{size}BLOB" for size in _BLOBS)):
        makers[name] = partial(_bytes, name, "")
    return makers


def compressed_strings() -> dict[str, Maker]:
    """MariaDB's COMPRESSED columns."""
    makers: dict[str, Maker] = {}
    suffix = " COMPRESSED"
    for name in ("VARCHAR", *(f"{size}TEXT" for size in _BLOBS)):
        makers[name + suffix] = partial(_text, name, suffix)
    for name in ("VARBINARY", *(f"{size}BLOB" for size in _BLOBS)):
        makers[name + suffix] = partial(_bytes, name, suffix)
    return makers


def _label_text(value: Any) -> str:
    number = value.index if isinstance(value, EnumValue) else value.bits
    return f"{number}:{str(value).encode().hex().upper()}"


def _labelled(
    name: str, charset: str, known: tuple[str, ...], literal: Literal, number: str
) -> Kind:
    listed = ",".join(f"'{label}'" for label in known)
    shown = "HEX({0})" if charset == "binary" else "HEX(CONVERT({0} USING utf8mb4))"
    return Kind(
        name,
        f"{name}({listed}) CHARACTER SET {charset}",
        literal,
        f"CONCAT({number}, ':', {shown})",
        _label_text,
        charset=charset,
        labels=known,
    )


def enums(draws: Draws) -> Kind:
    charset = draws.charset("ENUM", ())
    count = draws.card("ENUM sizes", (1, 3, 20, 255, 256, 300))
    known = labels(draws.rng, charset, count)

    def literal(rng: random.Random) -> str:
        if rng.random() < 0.15:
            return "'no such label'"
        if rng.random() < 0.3:
            return f"'{rng.choice(known)}'"
        return str(rng.choice((1, count, rng.randint(1, count))))

    return _labelled("ENUM", charset, known, literal, "{0} + 0")


def sets(draws: Draws) -> Kind:
    charset = draws.charset("SET", ())
    count = draws.card("SET sizes", (1, 8, 9, 16, 17, 24, 25, 32, 33, 64))
    known = labels(draws.rng, charset, count)

    def literal(rng: random.Random) -> str:
        return str(rng.choice((0, 1, 1 << (count - 1), (1 << count) - 1, rng.getrandbits(count))))

    # {0} + 0 is a DOUBLE and would lose bits of the longest.
    number = "CAST({0} + 0 AS UNSIGNED)" if count < 50 else "CAST({0} AS UNSIGNED)"
    return _labelled("SET", charset, known, literal, number)
