"""Numbers, copies and checks on raw memory, for the values of the hot path.

Compiled modules inline ``memory.pxd`` instead of this file; both have the same functions. Nothing
here checks a length: callers do. ``data`` is any sequence of bytes.
"""

from __future__ import annotations

from typing import Any


def longs(memory: bytearray) -> memoryview:
    """Return a buffer as an array of signed 64-bit integers."""
    return memoryview(memory).cast("q")


def arrow_bytes(buffer: Any) -> memoryview:
    """Return the memory of an Arrow buffer."""
    return memoryview(buffer).cast("B")


def arrow_ints(buffer: Any) -> memoryview:
    """Return the memory of an Arrow buffer as an array of signed 32-bit integers."""
    return memoryview(buffer).cast("B").cast("i")


def load_le(data: Any, offset: int, size: int) -> int:
    """Return an unsigned little-endian integer of 1 to 8 bytes."""
    return int.from_bytes(data[offset : offset + size], "little")


def load_be(data: Any, offset: int, size: int) -> int:
    """Return an unsigned big-endian integer of 1 to 8 bytes."""
    return int.from_bytes(data[offset : offset + size], "big")


def load_le_there(data: Any, at: int, size: int) -> int:
    """Return an unsigned little-endian integer; 0 for a missing value (``at`` is negative)."""
    return 0 if at < 0 else load_le(data, at, size)


def clear_bit(bits: Any, row: int, at: int) -> int:
    """Clear a row's bit and return 1 if its value is missing (``at`` is negative), else 0."""
    if at >= 0:
        return 0
    bits[row >> 3] &= 0xFF ^ (1 << (row & 7))
    return 1


def load_signed(data: Any, offset: int, size: int) -> int:
    """Return a two's complement little-endian integer of 1 to 8 bytes."""
    return int.from_bytes(data[offset : offset + size], "little", signed=True)


def store_number(values: Any, row: int, width: int, number: int) -> None:
    """Write the lowest ``width`` (1, 2, 4 or 8) bytes of a number to entry ``row`` of an array."""
    values[row] = number & ((1 << 8 * width) - 1)


def power_of_ten(digits: int) -> int:
    """Return ten to the power of `digits`, which is 0 to 9."""
    power: int = 10**digits
    return power


def copy_bytes(target: Any, to: int, data: Any, offset: int, size: int) -> None:
    """Copy ``size`` bytes."""
    target[to : to + size] = data[offset : offset + size]


def copy_over(target: Any, to: int, data: Any, offset: int, size: int) -> None:
    """Copy ``size`` bytes.

    The compiled form copies 16 bytes at a time: it may read and write up to the next multiple of
    16.
    """
    target[to : to + size] = data[offset : offset + size]


def move_bytes(target: Any, to: int, offset: int, size: int) -> None:
    """Move ``size`` bytes inside a memory; the two places may overlap."""
    target[to : to + size] = bytes(target[offset : offset + size])


def fill_bytes(target: Any, to: int, byte: int, size: int) -> None:
    """Set ``size`` bytes to one value."""
    target[to : to + size] = bytes((byte,)) * size


def same_bytes(a: Any, a_at: int, b: Any, b_at: int, size: int) -> bool:
    """Return whether ``size`` bytes at two places are equal."""
    return bool(a[a_at : a_at + size] == b[b_at : b_at + size])


def fingerprint(data: Any, offset: int, size: int, seed: int) -> int:
    """Return a 64-bit hash of bytes.

    It is stable only within one process. The compiled form looks at 24 bytes of long values.
    """
    return hash((seed, bytes(data[offset : offset + size]))) & 0xFFFFFFFFFFFFFFFF


def put_digits(target: Any, to: int, number: int) -> int:
    """Write an unsigned number of up to 64 bits in decimal; return where its digits end."""
    digits = b"%d" % number
    target[to : to + len(digits)] = digits
    return to + len(digits)


def put_literal(target: Any, to: int, literal: int) -> int:
    """Write ``null`` (0), ``true`` (1) or ``false`` (2); return where it ends.

    The compiled form always writes eight bytes.
    """
    text = (b"null", b"true", b"false")[literal]
    target[to : to + len(text)] = text
    return to + len(text)


def put_escaped(target: Any, to: int, byte: int) -> int:
    """Write a control character, quotation mark or backslash as a JSON escape; return its end."""
    if byte >= 0x20:
        text = bytes((0x5C, byte))
    elif 8 <= byte <= 13 and byte != 11:
        text = bytes((0x5C, b"btn\0fr"[byte - 8]))
    else:
        text = b"\\u%04x" % byte
    target[to : to + len(text)] = text
    return to + len(text)


def put_signed(target: Any, to: int, number: int) -> int:
    """Write a signed number of up to 64 bits in decimal; return where its digits end."""
    return put_digits(target, to, number)


def put_ten_thousandths(target: Any, to: int, number: int) -> int:
    """Write ten thousandths in decimal, with at least one digit after the point.

    Returns:
        where the digits end; the compiled form may write up to three bytes after that.
    """
    whole, fraction = divmod(number, 10_000)
    text = b"%d.%s" % (whole, (b"%04d" % fraction).rstrip(b"0") or b"0")
    target[to : to + len(text)] = text
    return to + len(text)


def utf8_ok(data: Any, offset: int, size: int) -> bool:
    """Return whether bytes are UTF-8: no overlong form, no surrogate, nothing above U+10FFFF."""
    try:
        str(data[offset : offset + size], "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def copy_utf8(target: Any, to: int, data: Any, offset: int, size: int) -> bool:
    """Copy ``size`` bytes; return whether they are UTF-8."""
    copy_bytes(target, to, data, offset, size)
    return utf8_ok(data, offset, size)


def copy_short_utf8(target: Any, to: int, data: Any, offset: int, size: int) -> bool:
    """Copy up to 31 bytes, where 32 can be read and written; return whether they are UTF-8."""
    return copy_utf8(target, to, data, offset, size)


def copy_quotable(target: Any, to: int, data: Any, offset: int, size: int) -> int:
    """Copy ``size`` bytes into a JSON string.

    Returns:
        0: all are ASCII characters that JSON strings contain unescaped; 1: other
            characters, or invalid bytes, are among them; 2: control characters,
            quotation marks or backslashes are.
    """
    copy_bytes(target, to, data, offset, size)
    part = data[offset : offset + size]
    if any(byte < 0x20 or byte in b'"\\' for byte in part):
        return 2
    return int(any(byte >= 0x80 for byte in part))
