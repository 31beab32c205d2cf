import struct
from math import inf, nan

import pytest
from hypothesis import given, strategies as st

from replica_client.protocol.binlog.values.json_encoder import double_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-42.0, "-42.0"),
        (0.1, "0.1"),
        (1e20, "1e20"),
        (1e15, "1e15"),
        (999999999999999.0, "999999999999999.0"),
        (1234567890123456.8, "1234567890123456.8"),
        (1234567890123456.0, "1.234567890123456e15"),
        (9007199254740992.0, "9.007199254740992e15"),
        (1e-4, "0.0001"),
        (1.5e-5, "0.000015"),
        (-1.2345678901234567e-14, "-0.000000000000012345678901234567"),
        (1e-15, "0.000000000000001"),
        (1e-16, "1e-16"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (5e-324, "5e-324"),
        (-2.2250738585072014e-308, "-2.2250738585072014e-308"),
    ],
)
def test_layout(value, text):
    assert double_text(value) == text


@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_not_a_number(value):
    with pytest.raises(ValueError, match="not a JSON number"):
        double_text(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_reads_back_and_is_no_integer(value):
    text = double_text(value)
    assert struct.pack("<d", float(text)) == struct.pack("<d", value)
    assert "." in text or "e" in text
    assert "+" not in text
