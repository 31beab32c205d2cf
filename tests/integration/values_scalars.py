"""Random numbers, bits, dates and times."""

import random
import struct
from collections.abc import Callable
from decimal import Decimal

from tests.integration.values_kinds import Draws, Kind, Maker

INTEGERS = (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
_SIGNS = ("", " UNSIGNED", " UNSIGNED ZEROFILL")
_FRACTIONS = tuple(range(7))


def integer(name: str, bits: int, sign: str) -> Maker:
    unsigned = bool(sign)
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    edges = (low, high, 0, 1, high - 1, low + 1, high >> 1)

    def literal(rng: random.Random) -> str:
        return str(rng.choice(edges) if rng.random() < 0.5 else rng.randint(low, high))

    def make(draws: Draws) -> Kind:
        width = draws.rng.choice(("", f"({draws.rng.randint(1, 20)})"))
        sql = name + width + sign
        return Kind(name + sign, sql, literal, "CAST({} + 0 AS CHAR)", str, unsigned=unsigned)

    return make


def integers() -> dict[str, Maker]:
    return {name + sign: integer(name, bits, sign) for name, bits in INTEGERS for sign in _SIGNS}


def _packed(form: str) -> Callable[[str], str]:
    return lambda text: struct.pack(form, float(text)).hex()


def floats(draws: Draws) -> Kind:
    extra = draws.card("FLOAT variants", ("", "", " UNSIGNED", "(7,3)", "(20)"))
    unsigned = extra == " UNSIGNED"

    def literal(rng: random.Random) -> str:
        if rng.random() < 0.4:
            text = rng.choice(
                ("0", "5.61", "0.1", "-1.5", "3.4028234e38", "-3.4028234e38", "1.17549435e-38",
                 "1e-45", "16777217", "-0e0")
            )  # fmt: skip
        else:
            text = f"{rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30):.{rng.randint(1, 9)}e}"
        return text.lstrip("-") if unsigned else text

    # CAST(… AS CHAR) would show six digits; as DOUBLE it is exact.
    return Kind(
        "FLOAT", f"FLOAT{extra}", literal, "{} * 1e0", lambda value: struct.pack("<f", value).hex(),
        expected=_packed("<f"), unsigned=unsigned,
    )  # fmt: skip


def doubles(draws: Draws) -> Kind:
    extra = draws.card("DOUBLE variants", ("", "", " UNSIGNED", "(30,7)"))
    unsigned = extra == " UNSIGNED"

    def literal(rng: random.Random) -> str:
        if rng.random() < 0.4:
            text = rng.choice(
                ("0", "0.1", "1.7976931348623157e308", "-1.7976931348623157e308",
                 "2.2250738585072014e-308", "5e-324", "1e22", "-0e0")
            )  # fmt: skip
        else:
            text = repr(rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300))
        return text.lstrip("-") if unsigned else text

    # With digits after the point a plain SELECT rounds; 0e0 is added to see what is stored.
    return Kind(
        "DOUBLE", f"DOUBLE{extra}", literal, "{} * 1e0",
        lambda value: struct.pack("<d", value).hex(), expected=_packed("<d"), unsigned=unsigned,
    )  # fmt: skip


def decimals(draws: Draws) -> Kind:
    rng = draws.rng
    precision = draws.card("DECIMAL precisions", range(1, 66))
    most = min(precision, 30)
    scale = rng.choice((0, most, rng.randint(0, most), rng.randint(0, most)))
    unsigned = rng.random() < 0.2

    def literal(rng: random.Random) -> str:
        digits = rng.choice((precision, rng.randint(0, precision)))
        number = rng.randrange(10**digits) if rng.random() < 0.8 else 10**digits - 1
        sign = "" if unsigned or rng.random() < 0.5 else "-"
        return f"'{sign}{Decimal(f'{number}E-{scale}'):f}'"

    sql = f"DECIMAL({precision},{scale})" + (" UNSIGNED" if unsigned else "")
    return Kind(
        "DECIMAL", sql, literal, "CAST({} AS CHAR)", lambda value: f"{value:f}", unsigned=unsigned
    )


def bits(draws: Draws) -> Kind:
    size = draws.card("BIT widths", range(1, 65))

    def literal(rng: random.Random) -> str:
        return f"b'{rng.choice((0, 1, (1 << size) - 1, rng.getrandbits(size))):b}'"

    return Kind("BIT", f"BIT({size})", literal, "CAST({} + 0 AS CHAR)", str)


def _date(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return rng.choice(
            ("0000-00-00", "2024-00-00", "2024-02-00", "2024-02-29", "9999-12-31", "0001-01-01",
             "1000-01-01", "0000-05-07")
        )  # fmt: skip
    return f"{rng.randint(1, 9999):04d}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _clock(rng: random.Random, digits: int) -> str:
    clock = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
    if rng.random() < 0.2:
        clock = rng.choice(("00:00:00", "23:59:59"))
    if not digits:
        return clock
    fraction = rng.choice((0, 10**digits - 1, 1, rng.randrange(10**digits)))
    return f"{clock}.{fraction:0{digits}d}"


def dates(draws: Draws) -> Kind:
    return Kind("DATE", "DATE", lambda rng: f"'{_date(rng)}'", "CAST({} AS CHAR)", str)


def times(draws: Draws) -> Kind:
    digits = draws.card("TIME digits", _FRACTIONS)

    def literal(rng: random.Random) -> str:
        sign = rng.choice(("", "-"))
        if rng.random() < 0.2:
            return f"'{sign}838:59:59'"
        hours, clock = rng.choice((0, rng.randint(0, 837))), _clock(rng, digits)
        return f"'{sign}{hours:02d}{clock[2:]}'"

    return Kind("TIME", f"TIME({digits})", literal, "CAST({} AS CHAR)", str, digits=digits)


def datetimes(draws: Draws) -> Kind:
    digits = draws.card("DATETIME digits", _FRACTIONS)

    def literal(rng: random.Random) -> str:
        return f"'{_date(rng)} {_clock(rng, digits)}'"

    return Kind("DATETIME", f"DATETIME({digits})", literal, "CAST({} AS CHAR)", str, digits=digits)


def timestamps(last: str) -> Maker:
    """TIMESTAMP up to the last second of a server."""
    last_year = int(last[:4])

    def make(draws: Draws) -> Kind:
        digits = draws.card("TIMESTAMP digits", _FRACTIONS)

        def literal(rng: random.Random) -> str:
            if rng.random() < 0.3:
                return rng.choice(
                    ("'0000-00-00 00:00:00'", f"'{last}'", "'1970-01-01 00:00:01'",
                     "'2038-01-19 03:14:07'")
                )  # fmt: skip
            year = rng.choice((1970, 2000, last_year - 1, rng.randint(1970, last_year - 1)))
            month, day = rng.randint(1, 12), rng.randint(2, 28)
            return f"'{year:04d}-{month:02d}-{day:02d} {_clock(rng, digits)}'"

        # Without NULL in its definition an old server gives a TIMESTAMP a default of its own.
        return Kind(
            "TIMESTAMP", f"TIMESTAMP({digits}) NULL", literal, "CAST({} AS CHAR)", str,
            digits=digits,
        )  # fmt: skip

    return make


def years(draws: Draws) -> Kind:
    return Kind(
        "YEAR",
        "YEAR",
        lambda r: str(r.choice((0, 1901, 2155, 2000, r.randint(1901, 2155)))),
        "CAST({} AS CHAR)",
        lambda value: f"{value:04d}",
        unsigned=True,
    )
