"""Random columns and values, and how the server itself is asked for a value's text.

A column type is a `Kind`: its SQL, random literals for it, the expression whose text a SELECT
gives, and the text that the decoded value must have to be equal.
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from replica_client.binlog.values.enum_set import EnumValue
from replica_client.binlog.values.geometry import encode_geometry
from replica_client.binlog.values.vector import encode_vector

Literal = Callable[[random.Random], str]
Text = Callable[[Any], str]

# Character set, its collation for definitions, and characters that it has.
CHARSETS = {
    "latin1": "aZ ~é€ÿß'\\\"",
    "utf8": "aZ ~é€Ωж漢",
    "utf8mb4": "aZ ~é€Ω漢😀𝄞",
    "ascii": "aZ ~09'\\",
    "ucs2": "aZ ~é€Ω漢",
    "utf16": "aZ ~éΩ漢😀",
    "cp1251": "aZ ~жЯё€",
    "binary": "",
}


@dataclass(frozen=True)
class Kind:
    """A column type.

    `select` has {} for the column; `text` gives what the server must answer. `facts` is what a
    definition from elsewhere knows: unsigned, charset, labels, logical_type.
    """

    sql: str
    literal: Literal
    select: str
    text: Text
    unsigned: bool | None = None
    charset: str | None = None
    labels: tuple[str, ...] | None = None
    logical_type: str | None = None
    not_null: bool = False
    is_json: bool = False


def _hex_text(value: Any) -> str:
    return value.encode().hex().upper() if isinstance(value, str) else value.hex().upper()


def _quoted(data: bytes, charset: str | None = None) -> str:
    if not data:
        return "''"
    return (f"_{charset} " if charset else "") + f"X'{data.hex()}'"


def integers(rng: random.Random) -> Kind:
    name, bits = rng.choice(
        (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
    )
    unsigned = rng.random() < 0.5
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    edges = (low, high, 0, 1, high - 1, low + 1, high >> 1)

    def literal(rng: random.Random) -> str:
        return str(rng.choice(edges) if rng.random() < 0.5 else rng.randint(low, high))

    sql = name + (rng.choice((" UNSIGNED", " UNSIGNED ZEROFILL")) if unsigned else "")
    return Kind(sql, literal, "CAST({} + 0 AS CHAR)", str, unsigned=unsigned)


def floats(rng: random.Random) -> Kind:
    unsigned = rng.random() < 0.2

    def literal(rng: random.Random) -> str:
        if rng.random() < 0.4:
            text = rng.choice(
                ("0", "5.61", "0.1", "1.5", "3.4028234e38", "1.17549435e-38", "1e-45", "16777217")
            )
        else:
            text = f"{rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30):.{rng.randint(1, 9)}e}"
        return text.lstrip("-") if unsigned else text

    # CAST(… AS CHAR) would show six digits; as DOUBLE it is exact.
    def text(value: float) -> str:
        return struct.pack("<f", value).hex()

    return Kind(
        "FLOAT" + (" UNSIGNED" if unsigned else ""), literal, "{} * 1e0", text, unsigned=unsigned
    )


def doubles(rng: random.Random) -> Kind:
    def literal(rng: random.Random) -> str:
        if rng.random() < 0.4:
            return rng.choice(
                ("0", "0.1", "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "1e22")
            )
        return repr(rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300))

    return Kind("DOUBLE", literal, "{}", lambda value: struct.pack("<d", value).hex(), False)


def decimals(rng: random.Random) -> Kind:
    precision = rng.choice((65, 65, 18, 19, 1, 9, 10, rng.randint(1, 65)))
    scale = rng.choice((0, min(precision, 30), rng.randint(0, min(precision, 30))))
    unsigned = rng.random() < 0.2

    def literal(rng: random.Random) -> str:
        digits = rng.choice((precision, rng.randint(0, precision)))
        number = rng.randrange(10**digits) if rng.random() < 0.8 else 10**digits - 1
        sign = "" if unsigned or rng.random() < 0.5 else "-"
        return f"'{sign}{Decimal(f'{number}E-{scale}'):f}'"

    sql = f"DECIMAL({precision},{scale})" + (" UNSIGNED" if unsigned else "")
    return Kind(sql, literal, "CAST({} AS CHAR)", lambda value: f"{value:f}", unsigned=unsigned)


def bits(rng: random.Random) -> Kind:
    size = rng.choice((1, 7, 8, 9, 63, 64, rng.randint(1, 64)))

    def literal(rng: random.Random) -> str:
        return f"b'{rng.choice((0, 1, (1 << size) - 1, rng.getrandbits(size))):b}'"

    return Kind(f"BIT({size})", literal, "CAST({} + 0 AS CHAR)", str)


def dates(rng: random.Random) -> Kind:
    return Kind("DATE", lambda r: f"'{_date(r)}'", "CAST({} AS CHAR)", str)


def _date(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return rng.choice(
            ("0000-00-00", "2024-00-00", "2024-02-00", "9999-12-31", "0001-01-01", "1000-01-01")
        )
    return f"{rng.randint(1, 9999):04d}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _clock(rng: random.Random, digits: int) -> str:
    clock = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
    if rng.random() < 0.2:
        clock = rng.choice(("00:00:00", "23:59:59"))
    if not digits:
        return clock
    fraction = rng.choice((0, 10**digits - 1, 1, rng.randrange(10**digits)))
    return f"{clock}.{fraction:0{digits}d}"


def times(rng: random.Random) -> Kind:
    digits = rng.randint(0, 6)

    def literal(rng: random.Random) -> str:
        sign = rng.choice(("", "-"))
        if rng.random() < 0.2:
            return f"'{sign}838:59:59'"
        hours, clock = rng.choice((0, rng.randint(0, 837))), _clock(rng, digits)
        return f"'{sign}{hours:02d}{clock[2:]}'"

    return Kind(f"TIME({digits})", literal, "CAST({} AS CHAR)", str)


def datetimes(rng: random.Random) -> Kind:
    digits = rng.randint(0, 6)

    def literal(rng: random.Random) -> str:
        return f"'{_date(rng)} {_clock(rng, digits)}'"

    return Kind(f"DATETIME({digits})", literal, "CAST({} AS CHAR)", str)


def timestamps(last_year: int) -> Callable[[random.Random], Kind]:
    def make(rng: random.Random) -> Kind:
        digits = rng.randint(0, 6)

        def literal(rng: random.Random) -> str:
            if rng.random() < 0.2:
                return "'0000-00-00 00:00:00'"
            year = rng.choice((1970, 2000, last_year - 1, rng.randint(1970, last_year - 1)))
            month, day = rng.randint(1, 12), rng.randint(2, 28)
            return f"'{year:04d}-{month:02d}-{day:02d} {_clock(rng, digits)}'"

        # Without NULL in its definition an old server gives a TIMESTAMP a default of its own.
        return Kind(f"TIMESTAMP({digits}) NULL", literal, "CAST({} AS CHAR)", str)

    return make


def years(rng: random.Random) -> Kind:
    return Kind(
        "YEAR",
        lambda r: str(r.choice((0, 1901, 2155, 2000, r.randint(1901, 2155)))),
        "CAST({} AS CHAR)",
        lambda value: f"{value:04d}",
        unsigned=True,
    )


def _text_literal(charset: str, most: int) -> Literal:
    repertoire = CHARSETS[charset]

    def literal(rng: random.Random) -> str:
        size = rng.choice((0, 1, most, rng.randint(0, most)))
        text = "".join(rng.choice(repertoire) for _ in range(size))
        if rng.random() < 0.2:
            text = text[:-2] + "  "
        return _quoted(text[:most].encode(), "utf8mb4")

    return literal


def _binary_literal(most: int) -> Literal:
    def literal(rng: random.Random) -> str:
        data = rng.randbytes(rng.choice((0, 1, most, rng.randint(0, most))))
        if rng.random() < 0.5:
            data = (data[: max(0, most - 3)] + b"\0 \0")[:most]
        return _quoted(data)

    return literal


def strings(rng: random.Random) -> Kind:
    charset = rng.choice(tuple(CHARSETS))
    shape = rng.choice(("CHAR", "CHAR", "VARCHAR", "VARCHAR", "TEXT"))
    prefix = ""
    if shape == "TEXT":
        prefix = rng.choice(("TINY", "", "MEDIUM", "LONG"))
        size, most = "", 60
    else:
        most = rng.choice((0, 1, 10, 63, 64, 85, 128, 255))
        if shape == "VARCHAR" and rng.random() < 0.2:
            most = rng.choice((256, 400))
        size = f"({most})"
    if charset == "binary":
        sql = prefix + {"CHAR": "BINARY", "VARCHAR": "VARBINARY", "TEXT": "BLOB"}[shape] + size
        return Kind(sql, _binary_literal(most), "HEX({})", _hex_text, charset=charset)
    sql = f"{prefix}{shape}{size} CHARACTER SET {charset}"
    select = "HEX(CONVERT({} USING utf8mb4))"
    return Kind(sql, _text_literal(charset, most), select, _hex_text, charset=charset)


def _label_text(value: Any) -> str:
    number = value.index if isinstance(value, EnumValue) else value.bits
    return f"{number}:{str(value).encode().hex().upper()}"


def enums(rng: random.Random) -> Kind:
    charset = rng.choice(("latin1", "utf8mb4", "utf8"))
    count = rng.choice((1, 3, 255, 256, 300))
    labels = tuple(f"é{at}" for at in range(count))
    listed = ",".join(f"'{label}'" for label in labels)

    def literal(rng: random.Random) -> str:
        if rng.random() < 0.15:
            return "'no such label'"
        return str(rng.choice((1, count, rng.randint(1, count))))

    return Kind(
        f"ENUM({listed}) CHARACTER SET {charset}",
        literal,
        "CONCAT({0} + 0, ':', HEX(CONVERT({0} USING utf8mb4)))",
        _label_text,
        charset=charset,
        labels=labels,
    )


def sets(rng: random.Random) -> Kind:
    charset = rng.choice(("latin1", "utf8mb4", "utf8"))
    count = rng.choice((1, 8, 9, 16, 17, 24, 25, 32, 33, 64))
    labels = tuple(f"ü{at}" for at in range(count))
    listed = ",".join(f"'{label}'" for label in labels)

    def literal(rng: random.Random) -> str:
        return str(rng.choice((0, 1, 1 << (count - 1), (1 << count) - 1, rng.getrandbits(count))))

    return Kind(
        f"SET({listed}) CHARACTER SET {charset}",
        literal,
        "CONCAT(CAST({0} + 0 AS UNSIGNED), ':', HEX(CONVERT({0} USING utf8mb4)))"
        if count < 50
        # {0} + 0 is a DOUBLE and would lose bits.
        else "CONCAT(CAST({0} AS UNSIGNED), ':', HEX(CONVERT({0} USING utf8mb4)))",
        _label_text,
        charset=charset,
        labels=labels,
    )


def geometries(rng: random.Random) -> Kind:
    name = rng.choice(("GEOMETRY", "POINT", "LINESTRING"))

    def literal(rng: random.Random) -> str:
        x, y = rng.uniform(-90, 90), rng.uniform(-90, 90)
        point = rng.choice((f"POINT({x} {y})", f"POINT({int(x)} {int(y)})"))
        line = f"LINESTRING({x} {y},{int(y)} {x},0 0)"
        polygon = "POLYGON((0 0,0 5,5 5,0 0))"
        shapes = {"POINT": (point,), "LINESTRING": (line,), "GEOMETRY": (point, line, polygon)}
        return f"ST_GeomFromText('{rng.choice(shapes[name])}', {rng.choice((0, 3857))})"

    # The stored form is not text; HEX of the column is all of it.
    return Kind(name, literal, "HEX({})", lambda value: encode_geometry(value).hex().upper())


def json_documents(rng: random.Random) -> Kind:
    def literal(rng: random.Random) -> str:
        return rng.choice(
            (
                "'null'",
                "'{}'",
                "'[1, -1, 2.5, true, \"x\"]'",
                f'\'{{"a": {rng.getrandbits(63)}, "b": ["é", {{}}]}}\'',
                "JSON_OBJECT('d', CAST('2024-02-29' AS DATE), 'n', 1.50)",
                f"JSON_ARRAY('{'x' * rng.randint(0, 300)}')",
            )
        )

    return Kind("JSON", literal, "CAST({} AS CHAR)", lambda value: value.text, is_json=True)


def vectors(rng: random.Random) -> Kind:
    def literal(rng: random.Random) -> str:
        numbers = [rng.choice((0, 5.61, -1.5, rng.uniform(-9, 9))) for _ in range(3)]
        return f"STRING_TO_VECTOR('[{','.join(map(str, numbers))}]')"

    return Kind("VECTOR(3)", literal, "HEX({})", lambda value: encode_vector(value).hex().upper())


def mariadb_vectors(rng: random.Random) -> Kind:
    def literal(rng: random.Random) -> str:
        return f"VEC_FromText('[{rng.uniform(-9, 9)},0.1,{rng.choice((0, 5.61))}]')"

    return Kind(
        "VECTOR(3)",
        literal,
        "HEX({})",
        lambda value: encode_vector(value).hex().upper(),
        charset="binary",
        logical_type="vector",
        not_null=True,
    )


def compressed(rng: random.Random) -> Kind:
    charset = rng.choice(("latin1", "utf8mb4", "binary"))
    shape = rng.choice(
        ("VARCHAR(60)", "VARCHAR(400)", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")
    )
    literal = _binary_literal(55) if charset == "binary" else _text_literal(charset, 55)

    def long_or_short(rng: random.Random) -> str:
        if rng.random() < 0.3 and "60" not in shape and "TINY" not in shape:
            return f"REPEAT('ab', {rng.randint(1, 200)})"
        return literal(rng)

    if charset == "binary":
        shape = shape.replace("CHAR", "BINARY").replace("TEXT", "BLOB")
        sql, select = f"{shape} COMPRESSED", "HEX({})"
    else:
        sql = f"{shape} COMPRESSED CHARACTER SET {charset}"
        select = "HEX(CONVERT({} USING utf8mb4))"
    return Kind(sql, long_or_short, select, _hex_text, charset=charset)


def uuids(rng: random.Random) -> Kind:
    def literal(rng: random.Random) -> str:
        data = rng.randbytes(16)
        if rng.random() < 0.4:
            data = data[: rng.randint(0, 14)].ljust(16, b"\0")
        text = data.hex()
        return f"'{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}'"

    return Kind("UUID", literal, "CAST({} AS CHAR)", str, charset="binary", logical_type="uuid")


def inet4s(rng: random.Random) -> Kind:
    def literal(rng: random.Random) -> str:
        return f"'{'.'.join(str(rng.choice((0, 1, 255, rng.randrange(256)))) for _ in range(4))}'"

    return Kind("INET4", literal, "CAST({} AS CHAR)", str, charset="binary", logical_type="inet4")


def inet6s(rng: random.Random) -> Kind:
    def literal(rng: random.Random) -> str:
        edges = ("::", "::1", "::ffff:1.2.3.4", "::1.2.3.4", "2001:db8::", "fe80::1:0:0:1")
        groups = ":".join(f"{rng.choice((0, 0, 1, rng.getrandbits(16))):x}" for _ in range(8))
        return f"'{rng.choice(edges) if rng.random() < 0.4 else groups}'"

    return Kind("INET6", literal, "CAST({} AS CHAR)", str, charset="binary", logical_type="inet6")


COMMON: tuple[Callable[[random.Random], Kind], ...] = (
    integers,
    integers,
    floats,
    doubles,
    decimals,
    bits,
    dates,
    times,
    datetimes,
    years,
    strings,
    strings,
    strings,
    enums,
    sets,
    geometries,
)


def makers(flavor: str, version: Sequence[int]) -> tuple[Callable[[random.Random], Kind], ...]:
    """The column types of a server."""
    found = COMMON
    if flavor == "mysql":
        found += (timestamps(2038),)
        if tuple(version) >= (8, 0):
            found += (json_documents,)
        if tuple(version) >= (9, 0):
            found += (vectors,)
        return found
    found += (timestamps(2106 if tuple(version) >= (11, 5) else 2038), compressed)
    if tuple(version) >= (10, 10):
        found += (uuids, inet4s, inet6s)
    if tuple(version) >= (11, 7):
        found += (mariadb_vectors,)
    return found
