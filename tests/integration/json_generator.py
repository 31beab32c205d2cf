"""Seeded random JSON documents as SQL expressions, and random updates inside documents."""

import json
import random
import struct
from decimal import Decimal
from typing import Any

from replica_client.protocol.binlog.values.json_binary import JsonOpaque
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time

TYPES_TABLE = """
CREATE TABLE types (
    c_bit BIT(12), c_bit1 BIT(1), c_bit64 BIT(64), c_year YEAR, c_bool BOOL,
    c_enum ENUM('a', 'ß"x', ''), c_set SET('x', 'y'), c_float FLOAT, c_double DOUBLE,
    c_bigint BIGINT UNSIGNED, c_decimal DECIMAL(65, 30), c_money DECIMAL(12, 2),
    c_whole DECIMAL(20, 0),
    c_binary BINARY(7), c_varbinary VARBINARY(3000), c_tinyblob TINYBLOB, c_blob BLOB,
    c_mediumblob MEDIUMBLOB, c_longblob LONGBLOB,
    c_date DATE, c_time TIME, c_time6 TIME(6), c_datetime DATETIME, c_datetime6 DATETIME(6),
    c_timestamp TIMESTAMP NULL, c_timestamp3 TIMESTAMP(3) NULL,
    c_text TEXT, c_latin1 VARCHAR(30) CHARACTER SET latin1, c_json JSON, c_point POINT
)
"""
COLUMNS = [
    word
    for line in TYPES_TABLE.splitlines()
    for word in line.replace(",", " ").split()
    if word.startswith("c_")
]

_EDGE_INTEGERS = [
    sign * ((1 << bits) + delta)
    for bits in (0, 7, 8, 15, 16, 31, 32, 53, 62, 63)
    for delta in (-1, 0, 1)
    for sign in (1, -1)
]
_JSON_INTEGERS = [number for number in _EDGE_INTEGERS if -(1 << 63) <= number < 1 << 64]
_EDGE_LENGTHS = (0, 1, 2, 57, 58, 63, 64, 76, 114, 115, 127, 128, 129, 300, 16383, 16384)
_ALPHABET = "abc xyz012\"\\/\b\f\n\r\t\0\x01\x1e\x1f\x7f'`$.[*é߀\u2028\ufffd😀中"


class Generator:
    """One seed gives one sequence of documents and updates."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def types_row(self) -> list[Any]:
        """Values for one row of the table of all types."""
        r = self.random
        blob = lambda: r.randbytes(r.choice((0, 1, 7, 56, 57, 58, 114, 115, 200)))  # noqa: E731
        clock = f"{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}"
        day = f"{r.randrange(1, 10000):04}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"
        recent = f"{r.randrange(1971, 2038)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"
        zero = r.random() < 0.1
        sign = "-" * r.randrange(2)
        point = struct.pack("<IBIdd", 0, 1, 1, r.uniform(-9, 9), r.choice((0.0, -0.0, 1e22, 2.5)))
        return [
            r.randrange(4096), r.randrange(2), r.getrandbits(64), r.choice((1901, 2155, 0, 2024)),
            r.randrange(2), r.choice(("a", 'ß"x', "")), r.choice(("", "x", "x,y")),
            r.uniform(-1e6, 1e6), self.double(), r.getrandbits(64),
            f"{sign}{r.getrandbits(r.randrange(1, 110))}.{r.getrandbits(r.randrange(1, 99))}",
            r.choice(("0", "-0.01", "1234567890.12", "99.9")), r.randrange(-10**19, 10**19),
            r.randbytes(7), blob() * r.choice((1, 10)), blob(), blob(), blob(), blob(),
            "0000-00-00" if zero else day,
            f"{sign}{r.randrange(839)}:{r.randrange(60):02}:59",
            f"{sign}{r.randrange(838)}:00:{r.randrange(60):02}.{r.randrange(10**6):06}",
            "0000-00-00 00:00:00" if zero else f"{day} {clock}",
            f"2015-00-00 {clock}" if zero else f"{day} {clock}.{r.randrange(10**6):06}",
            f"{recent} {clock}", f"{recent} {clock}.{r.randrange(1000):03}",
            self.text(), "Grüße", json.dumps(self.plain(2)), point,
        ]  # fmt: skip

    def double(self) -> float:
        r = self.random
        while True:
            kind = r.randrange(5)
            if kind == 0:
                value: float = struct.unpack("<d", r.randbytes(8))[0]
            elif kind == 1:
                value = r.choice((-1, 1)) * r.randrange(1, 10**6) * 10.0 ** r.randrange(-25, 25)
            elif kind == 2:
                value = float(r.getrandbits(r.randrange(1, 70)))
            elif kind == 3:
                value = round(r.uniform(-1000, 1000), r.randrange(6))
            else:
                value = r.choice((0.0, -0.0, 1e15, 1e16, 999999999999999.9, 1e-15, 1e-14, 5e-324))
            if value - value == 0:
                return value

    def text(self, length: int | None = None) -> str:
        r = self.random
        size = r.choice(_EDGE_LENGTHS[:13]) if length is None else length
        alphabet = _ALPHABET if r.random() < 0.5 else "abcdefgh ABC"
        return "".join(r.choices(alphabet, k=size))

    def plain(self, depth: int) -> Any:
        """A Python object that JSON text can say."""
        r = self.random
        kind = r.randrange(9 if depth else 6)
        if kind == 0:
            return r.choice((None, True, False))
        if kind == 1:
            return r.choice(_JSON_INTEGERS)
        if kind == 2:
            return self.double()
        if kind == 3:
            return r.getrandbits(64)
        if kind < 6:
            return self.text()
        count = r.choice((0, 1, 2, 3, 5, 9))
        if kind == 6:
            return [self.plain(depth - 1) for _ in range(count)]
        return {self.text(r.randrange(12)): self.plain(depth - 1) for _ in range(count)}

    def rich(self) -> Any:
        """Python objects over every type that a document can hold."""
        r = self.random
        value: list[Any] = [
            self.plain(2),
            Decimal(r.getrandbits(r.randrange(1, 150))).scaleb(-r.randrange(10)),
            Decimal(-r.getrandbits(30)).scaleb(-r.randrange(31)),
            Date(r.randrange(10000), r.randrange(13), r.randrange(32)),
            DateTime(r.randrange(10000), 1, 1, r.randrange(24), 59, 0, r.randrange(1000000)),
            Time(bool(r.randrange(2)), r.randrange(839), r.randrange(60), 59, r.randrange(9)),
            JsonOpaque(r.choice((15, 16, 252, 253, 254, 255, 13, 0)), r.randbytes(r.randrange(80))),
            JsonOpaque(253, self.text().encode()),
        ]
        r.shuffle(value)
        value = value[: r.randrange(len(value) + 1)]
        return {"k": value} if r.random() < 0.2 else value[0] if len(value) == 1 else value

    def expression(self, depth: int = 3) -> tuple[str, list[Any]]:
        """An SQL expression with its arguments, over the columns of the table of types."""
        r = self.random
        kind = r.randrange(14 if depth else 9)
        if kind < 3:
            return r.choice(COLUMNS), []
        if kind == 3:
            return "%s", [self.text()]
        if kind == 4:
            return "CAST(%s AS JSON)", [json.dumps(self.plain(min(depth, 2)))]
        if kind == 5:
            return r.choice(
                (
                    "CAST(0.5 AS DECIMAL(3,1))", "-0.00", "TRUE", "NULL", "JSON_ARRAY()",
                    "JSON_OBJECT()", "CURRENT_TIMESTAMP(6)", "CURRENT_DATE", "TIME'-00:00:00.1'",
                    "1e400 / 1e300 * 0", "PI()", "b'101'", "x'00ff'", "18446744073709551615",
                    "0.000000000000000000000000000001", "ST_GEOMFROMTEXT('LINESTRING(1 2, 3 4)')",
                ) if r.random() < 0.9 else ("NULL",)
            ).replace("1e400", "1e300"), []  # fmt: skip
        if kind == 6:
            return repr(self.double()), []
        if kind == 7:
            return str(r.choice(_EDGE_INTEGERS)), []
        if kind == 8:
            return "CAST(%s AS BINARY)", [self.text()]
        parts: list[str] = []
        args: list[Any] = []
        for _ in range(r.choice((0, 1, 2, 4, 7, 12))):
            if kind < 12:
                parts.append("%s")
                args.append(self.text(r.randrange(9)) + r.choice("abcdefghij"))
            part, more = self.expression(depth - 1)
            parts.append(part)
            args += more
        function = "JSON_OBJECT" if kind < 12 else "JSON_ARRAY"
        return f"{function}({', '.join(parts)})", args

    def large(self) -> str:
        """JSON text whose containers need the large format, or nearly do."""
        r = self.random
        kind = r.randrange(6)
        numbers = [r.choice(_EDGE_INTEGERS) for _ in range(r.choice((8000, 13000, 21800)))]
        value: Any = numbers
        if kind == 1:
            value = {f"key{i}": self.plain(1) for i in range(r.choice((2000, 5000)))}
        elif kind == 2:
            value = [self.text(65535 - r.randrange(40)), -1, 70000, -70000, True]
        elif kind == 3:
            value = {
                "a": "x" * r.choice((65500, 65519, 65520, 65521, 65522, 65523, 70000)),
                "b": -5,
            }
        elif kind == 4:
            value = {"outer": {"inner": numbers}, "n": -1, "m": [-2, 1 << 31, -1 << 31]}
        elif kind == 5:
            value = [[i, str(i), [{"deep": -i}]] for i in range(4000)]
        return json.dumps(value)

    def update(self, value: Any, column: str) -> tuple[str, list[Any]]:
        """A chain of JSON functions over a column that holds ``value``."""
        r = self.random
        sql, args = column, list[Any]()
        for _ in range(r.choice((1, 1, 2, 3))):
            function = r.choice(("SET", "SET", "SET", "REPLACE", "REPLACE", "REMOVE", "REMOVE"))
            if r.random() < 0.04:  # these end updates in place: the row is logged whole
                function = r.choice(("ARRAY_INSERT", "ARRAY_APPEND", "INSERT"))
            pairs = []
            for _ in range(r.choice((1, 1, 2, 3))):
                path = self.path(value, function != "REMOVE")
                if function == "REMOVE":
                    if path == "$":
                        path = "$.none"
                    pairs.append("%s")
                    args.append(path)
                else:
                    part, more = self.expression(1)
                    part = f"(SELECT {part} FROM types)"
                    if r.random() < 0.5:
                        part, more = "%s", [r.choice((self.text(), r.choice(_EDGE_INTEGERS)))]
                    pairs.append(f"%s, {part}")
                    args += [path, *more]
            sql = f"JSON_{function}({sql}, {', '.join(pairs)})"
        return sql, args

    def path(self, value: Any, may_add: bool) -> str:
        """A path to a place in the value, now and then beside it."""
        r = self.random
        path = "$"
        while r.random() < (0.98 if path == "$" else 0.6):
            if isinstance(value, dict):
                if may_add and (not value or r.random() < 0.25):
                    return path + self.member(self.text(r.randrange(6)) + "new")
                if not value:
                    break
                key = r.choice(list(value))
                path += self.member(key)
                value = value[key]
            elif isinstance(value, list):
                if may_add and (not value or r.random() < 0.2):
                    return path + f"[{len(value) + r.randrange(3)}]"
                if not value:
                    break
                index = r.randrange(len(value))
                back = len(value) - 1 - index
                last = "[last]" if back == 0 else f"[last - {back}]"
                path += last if r.random() < 0.3 else f"[{index}]"
                value = value[index]
            elif r.random() < 0.2:
                return path + r.choice(("[0]", "[last]", "[1]", "[0][0]"))
            else:
                break
        return path

    def member(self, key: str) -> str:
        """A leg for a member."""
        return "." + json.dumps(key, ensure_ascii=self.random.random() < 0.5)
