import json

import pytest
from hypothesis import given, strategies as st

from replica_client.protocol.binlog.values.json_binary import JsonDocument, JsonOpaque
from replica_client.protocol.binlog.values.json_encoder import double_text
from replica_client.protocol.binlog.values.json_lookup import json_text


def text_of(value: object) -> str:
    return JsonDocument.of(value).text


def test_spaces_and_key_order():
    value = {"bb": 1, "a": [1, {"c": None}], "b": True, "": False, "ä": "x"}
    assert text_of(value) == '{"": false, "a": [1, {"c": null}], "b": true, "bb": 1, "ä": "x"}'


def test_keys_stay_in_the_stored_order():
    data = bytes.fromhex("000200140012000100130001000501000502006261")
    assert json_text(data) == '{"b": 1, "a": 2}'


def test_a_key_that_comes_twice_is_shown_twice():
    data = bytes.fromhex("000200140012000100130001000501000502006161")
    assert json_text(data) == '{"a": 1, "a": 2}'


@pytest.mark.parametrize("empty", [{}, []])
def test_empty_containers(empty):
    assert text_of(empty) == json.dumps(empty)
    assert text_of([empty, empty]) == json.dumps([empty, empty])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('"\\/', r'"\"\\/"'),
        ("\b\t\n\f\r", r'"\b\t\n\f\r"'),
        ("\x00\x01\x0b\x1e\x1f", r'"\u0000\u0001\u000b\u001e\u001f"'),
        ("\x7f\x80\u2028é中😀", '"\x7f\x80\u2028é中😀"'),
    ],
)
def test_escapes(text, shown):
    """As MySQL 9.7.4 showed each of these."""
    assert text_of(text) == shown
    assert text_of([text]) == f"[{shown}]"
    assert text_of({text: text}) == f"{{{shown}: {shown}}}"


@pytest.mark.parametrize(
    ("size", "breaks"), [(0, 0), (1, 0), (56, 0), (57, 0), (58, 1), (114, 1), (115, 2)]
)
def test_base64_has_a_line_break_before_the_77th_character(size, breaks):
    text = text_of(JsonOpaque(252, b"\xff" * size))
    assert text.startswith('"base64:type252:')
    assert text.count("\\n") == breaks
    assert not text.endswith('\\n"')
    for line in text[len('"base64:type252:') : -1].split("\\n")[:-1]:
        assert len(line) == 76


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("0ff60403028163", "1.99"),
        ("0ff60403027e9c", "-1.99"),
        ("0ff60302028a", "0.10"),
        ("0ff603010080", "0"),
        ("0ff6080d04875bcd1504d2", "123456789.1234"),
        ("0f0a0800000000001e9519", '"2015-01-15"'),
        ("0f0a080000000000000000", '"0000-00-00"'),
        ("0f0b080000001976010000", '"23:24:25.000000"'),
        ("0f0b080000000000000000", '"00:00:00.000000"'),
        ("0f0b08" + (-((838 << 12 | 59 << 6 | 59) << 24)).to_bytes(8, "little", signed=True).hex(),
         '"-838:59:59.000000"'),
        ("0f0b08" + (-1).to_bytes(8, "little", signed=True).hex(), '"-00:00:00.000001"'),
        ("0f0c0800000019761f9519", '"2015-01-15 23:24:25.000000"'),
        ("0f070800000019761f9519", '"2015-01-15 23:24:25.000000"'),
        ("0f1002cafe", '"base64:type16:yv4="'),
        ("0ffd03612262", r'"a\"b"'),
        ("0affffffffffffffff", "18446744073709551615"),
        ("", "null"),
    ],
)  # fmt: skip
def test_scalars(data, text):
    value = bytes.fromhex(data)
    assert json_text(value) == text
    if value:
        payload = value[1:]
        array = b"\x02\x01\x00" + (7 + len(payload)).to_bytes(2, "little")
        array += value[:1] + b"\x07\x00" + payload
        assert json_text(array) == f"[{text}]"


_text = st.text(st.characters(codec="utf-8"), max_size=12)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | _text,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(_text, inner, max_size=6),
    max_leaves=30,
)  # fmt: skip


@given(_json)
def test_parses_to_the_value(value):
    document = JsonDocument.of(value)
    assert json.loads(document.text) == value == document.value


def test_more_keys_than_the_cache_holds():
    value = {f"key{number}": number for number in range(5000)}
    assert json.loads(text_of(value)) == value
    assert json.loads(text_of(value)) == value


@pytest.mark.parametrize("special", ['"', "\\", "\x1f", "\x00", "\x7f", "é", "語"])
def test_what_is_special_is_found_wherever_it_stands(special):
    for size in (*range(1, 40), 130):
        for at in range(size):
            text = "a" * at + special + "b" * (size - at - 1)
            assert json.loads(text_of([text])) == [text]


@given(
    st.lists(
        st.one_of(
            st.integers(-(10**13), 10**13).map(lambda n: n / 10_000),
            st.integers(-(10**7), 10**7).map(lambda n: n / 100),
            st.floats(1e-5, 1e10),
        )
    )
)
def test_doubles_have_their_shortest_text(numbers):
    assert text_of(numbers) == "[" + ", ".join(map(double_text, numbers)) + "]"
