"""Random geometries, JSON documents and changes of them, vectors, and network addresses."""

import json
import random
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

from replica_client.protocol.binlog.values.value_types import encode_geometry, encode_vector
from tests.integration.values_kinds import Draws, Kind, Maker, hex_text, quoted

GEOMETRIES = (
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
)
_STRINGS = ("", "x", "é漢😀", "\"'\\\n\x00", "x" * 300, "1" * 70)
_PATHS = ("$.a", "$.b", "$.b[0]", "$.b[last]", '$."é k"', "$[0]", "$[1]", "$[last]", "$.b[1].c",
          "$.new", '$."n 1"."m"', "$[5]", "$.a.b")  # fmt: skip
_DIMENSIONS = (1, 2, 3, 16, 100, 255, 383, 1024)


def _numbers(rng: random.Random) -> str:
    x, y = rng.uniform(-90, 90), rng.uniform(-90, 90)
    return rng.choice((f"{x!r} {y!r}", f"{int(x)} {int(y)}", "0 0", "1e-300 -1e300"))


def _ring(rng: random.Random, low: int) -> str:
    high = low + rng.randint(1, 30)
    return f"({low} {low},{low} {high},{high} {high},{high} {low},{low} {low})"


def _wkt(rng: random.Random, name: str) -> str:
    many = range(rng.randint(1, 4))
    if name == "POINT":
        return f"POINT({_numbers(rng)})"
    if name == "LINESTRING":
        return f"LINESTRING(1 1,{','.join(_numbers(rng) for _ in many)})"
    if name == "POLYGON":
        inner = rng.choice(("", ",(11 11,11 12,12 12,11 11)"))
        return f"POLYGON((10 10,10 50,50 50,50 10,10 10){inner})"
    if name == "MULTIPOINT":
        return f"MULTIPOINT({','.join(_numbers(rng) for _ in many)})"
    if name == "MULTILINESTRING":
        lines = (f"(1 1,{_numbers(rng)})" for _ in many)
        return f"MULTILINESTRING({','.join(lines)})"
    if name == "MULTIPOLYGON":
        return f"MULTIPOLYGON({','.join(f'({_ring(rng, 50 * at)})' for at in many)})"
    parts = ",".join(_wkt(rng, rng.choice(GEOMETRIES[:6])) for _ in many)
    return f"GEOMETRYCOLLECTION({parts})"


def _geometry(name: str, draws: Draws) -> Kind:
    def literal(rng: random.Random) -> str:
        shape = rng.choice(GEOMETRIES) if name == "GEOMETRY" else name
        return f"ST_GeomFromText('{_wkt(rng, shape)}', {rng.choice((0, 0, 3857))})"

    # The stored form is not text; HEX of the column is all of it.
    return Kind(
        name, name, literal, "HEX({})", lambda value: hex_text(encode_geometry(value)),
        can_copy=False,
    )  # fmt: skip


def geometries() -> dict[str, Maker]:
    return {name: partial(_geometry, name) for name in ("GEOMETRY", *GEOMETRIES)}


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 6)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        bits = rng.choice((8, 16, 32, 63))
        return rng.choice((-1, 1)) * (rng.getrandbits(bits) or (1 << bits))
    if kind == 2:
        return rng.choice((0.1, -1e300, 1e22, 2.5, rng.uniform(-1e6, 1e6)))
    if kind == 3:
        return rng.choice((0, 1, (1 << 64) - 1, -(1 << 63)))
    if kind < 6:
        return rng.choice(_STRINGS)
    count = rng.choice((0, 1, 2, 4))
    if kind == 6:
        return [_value(rng, depth - 1) for _ in range(count)]
    keys = ("a", "b", "é k", "n 1", "", "k" * 40)
    return {rng.choice(keys): _value(rng, depth - 1) for _ in range(count)}


def _json(value: Any) -> str:
    return quoted(json.dumps(value, ensure_ascii=False).encode(), "utf8mb4")


def json_literal(rng: random.Random) -> str:
    """An SQL expression of a document."""
    kind = rng.randrange(10)
    if kind == 0:
        return (
            "JSON_OBJECT('d', CAST('2024-02-29' AS DATE), 'n', 1.50, 't', TIME'-01:02:03.5',"
            " 'a', X'00ff', 'b', JSON_ARRAY(b'101', 18446744073709551615, TIMESTAMP'2024-02-29 01:02:03.5'))"
        )
    if kind == 1:
        return _json(_value(rng, 2))
    if kind == 2:
        return _json([_value(rng, 1) for _ in range(rng.randrange(6))])
    # Large enough for a change in part to be worth it.
    more = {"a": _value(rng, 1), "b": [_value(rng, 2), {"c": "x" * 50}], "é k": 1}
    return _json({**more, "rest": "漢" * rng.choice((10, 100, 200))})


def json_change(rng: random.Random, column: str) -> str:
    """Changes in parts of a column's documents."""
    sql = column
    for _ in range(rng.choice((1, 1, 2, 3))):
        function = rng.choice(("SET", "SET", "REPLACE", "REMOVE"))
        parts = []
        for path in rng.sample(_PATHS, rng.choice((1, 1, 2, 3))):
            name = quoted(path.encode(), "utf8mb4")
            if function == "REMOVE":
                parts.append(name)
                continue
            value = rng.choice(
                (str(rng.randint(-5, 70000)), quoted(rng.choice(_STRINGS).encode(), "utf8mb4"),
                 f"CAST({_json(_value(rng, 1))} AS JSON)", "1.25", "CAST('10:11:12' AS TIME(3))",
                 "NULL", "TRUE")
            )  # fmt: skip
            parts.append(f"{name}, {value}")
        sql = f"JSON_{function}({sql}, {', '.join(parts)})"
    return sql


def json_documents(draws: Draws) -> Kind:
    return Kind(
        "JSON", "JSON", json_literal, "CAST({} AS CHAR)", lambda value: value.text, is_json=True
    )


def mariadb_json(draws: Draws) -> Kind:
    """MariaDB's JSON is LONGTEXT with a check."""

    def literal(rng: random.Random) -> str:
        return _json(_value(rng, 2))

    return Kind(
        "JSON", "JSON", literal, "HEX(CONVERT({} USING utf8mb4))", hex_text, charset="utf8mb4",
        can_copy=False,
    )  # fmt: skip


def _float(rng: random.Random) -> float:
    number = rng.choice((0.0, 5.61, -1.5, 3.4028234e38, rng.uniform(-9, 9)))
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def _vector(function: str, extra: dict[str, Any], draws: Draws) -> Kind:
    size = draws.card("VECTOR dimensions", _DIMENSIONS)

    def literal(rng: random.Random) -> str:
        return f"{function}('[{','.join(f'{_float(rng):.9g}' for _ in range(size))}]')"

    return Kind(
        "VECTOR", f"VECTOR({size})", literal, "HEX({})",
        lambda value: hex_text(encode_vector(value)), can_copy=False, **extra,
    )  # fmt: skip


vectors = partial(_vector, "STRING_TO_VECTOR", {})
mariadb_vectors = partial(
    _vector, "VEC_FromText", {"charset": "binary", "logical_type": "vector", "not_null": True}
)


def _network(name: str, literal: Any) -> Maker:
    logical = name.lower()

    def make(draws: Draws) -> Kind:
        return Kind(
            name, name, literal, "CAST({} AS CHAR)", str, charset="binary", logical_type=logical
        )

    return make


def _uuid(rng: random.Random) -> str:
    data = rng.randbytes(16)
    if rng.random() < 0.4:
        data = data[: rng.randint(0, 14)].ljust(16, b"\0")
    text = data.hex()
    return f"'{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}'"


def _inet4(rng: random.Random) -> str:
    return f"'{'.'.join(str(rng.choice((0, 1, 255, rng.randrange(256)))) for _ in range(4))}'"


def _inet6(rng: random.Random) -> str:
    edges = ("::", "::1", "::ffff:1.2.3.4", "::1.2.3.4", "2001:db8::", "fe80::1:0:0:1")
    groups = ":".join(f"{rng.choice((0, 0, 1, rng.getrandbits(16))):x}" for _ in range(8))
    return f"'{rng.choice(edges) if rng.random() < 0.4 else groups}'"


def networks(version: Sequence[int]) -> dict[str, Maker]:
    """MariaDB's types of addresses and identifiers."""
    found = {"INET6": _network("INET6", _inet6)}
    if tuple(version) >= (10, 10):
        found |= {"INET4": _network("INET4", _inet4), "UUID": _network("UUID", _uuid)}
    return found
