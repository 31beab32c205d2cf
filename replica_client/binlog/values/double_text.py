"""Format a DOUBLE as MySQL prints it inside a JSON document."""

from __future__ import annotations

_MIN_DECIMAL_POINT = -14


def double_text(value: float) -> str:
    """Return the shortest text that reads back as ``value``, formatted as MySQL does in JSON.

    For a value ``0.DDDD x 10**point``, MySQL writes no exponent if ``-14 <= point <= 15``, or if
    ``point > 15`` and the value has a fraction. Otherwise it writes ``D.DDDeN``, without plus sign
    or leading zeros in the exponent. A text that would read as an integer gets ``.0``.

    Raises:
        ValueError: infinity or not a number, which JSON cannot hold.

    Spec: MySQL ``my_gcvt`` (dtoa.cc) and ``wrapper_to_string`` (json_dom.cc).
    """
    text = repr(value)
    if -1e15 < value < 1e15:
        if "e" not in text:
            return text
    elif value - value != 0.0:
        raise ValueError(f"{text} is not a JSON number")
    elif "e" not in text and not text.endswith(".0"):
        return text
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent = text[len(sign) :].partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).rstrip("0")
    point = len(whole) + int(exponent or 0)
    if _MIN_DECIMAL_POINT <= point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1}"
