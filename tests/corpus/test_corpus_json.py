"""JSON fixtures of other projects: every case gives its value, or says why it is wrong there."""

import json
import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_binary import JsonDocument, JsonOpaque
from replica_client.protocol.binlog.values.json_diff import (
    JsonDiffOperation,
    apply_diffs,
    decode_diffs,
)
from replica_client.protocol.binlog.values.json_encoder import double_text
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time
from replica_client.protocol.codec.byte_fields import ByteReader

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "fixtures"
LONG, LONGLONG, VARCHAR, DATETIME2, JSON, DECIMAL_10 = 3, 8, 15, 18, 245, 246


@pytest.fixture(scope="module", autouse=True)
def _fixtures_there():
    if not FIXTURES.is_dir():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no corpus at {FIXTURES}")


def cases(name: str, test: str | None = None) -> list[dict]:
    found = json.loads((FIXTURES / name).read_text())["cases"]
    return [case for case in found if test is None or case["test"] == test]


def images(body: ByteReader, types: list[int], partial: bool = False):
    """Column values of each image; JSON as bytes. In partial updates (values, whether diffs)."""
    after = False
    while body.remaining:
        is_diff = False
        if partial and after and body.lenenc():
            is_diff = bool(body.uint(1))
        nulls = body.uint((len(types) + 7) // 8)
        values: list[Any] = []
        for index, code in enumerate(types):
            if nulls >> index & 1:
                values.append(None)
            elif code in (LONG, LONGLONG):
                values.append(body.uint(4 if code == LONG else 8))
            elif code in (DATETIME2, DECIMAL_10):
                values.append(body.take(5))
            else:
                values.append(body.take(body.uint(1 if code == VARCHAR else 4)))
        yield (values, is_diff) if partial else values
        after = not after


# -- vitess ---------------------------------------------------------------------------------------

# The size of this array says 37 bytes, 12 are there: it was cut out of the next case's bytes by
# hand. MySQL 9.7.4 refuses it too (ER_INVALID_JSON_BINARY_DATA, shown by JsonServer.judge).
VITESS_CUT_BY_HAND = "02010025000c0800000468657265"

VITESS_OPAQUE = {
    'datetime "2015-01-15 23:24:25.000000"': DateTime(2015, 1, 15, 23, 24, 25, 0, 6),
    'time "23:24:25.000000"': Time(False, 23, 24, 25, 0, 6),
    'time "23:24:25.120000"': Time(False, 23, 24, 25, 120000, 6),
    'date "2015-01-15"': Date(2015, 1, 15),
    'decimal "123456789.1234"': Decimal("123456789.1234"),
    'small decimal "1.99"': Decimal("1.99"),
    "bit literal 0xCAFE": JsonOpaque(16, b"\xca\xfe"),
    "opaque string 0xCAFE": JsonOpaque(15, b"\xca\xfe"),
    "opaque blob 0xCAFE": JsonOpaque(252, b"\xca\xfe"),
}


def test_vitess_values():
    seen = 0
    for case in cases("vitess/binlog_json_test.json"):
        name, document = case["name"], JsonDocument(bytes.fromhex(case["hex"]))
        seen += 1
        broken = case["kind"] == "parse" and "expected" in case
        if broken or case["hex"] == VITESS_CUT_BY_HAND:
            with pytest.raises(ColumnDecodeError):
                _ = document.text
            continue
        if name in VITESS_OPAQUE:
            assert document.value == VITESS_OPAQUE[name]
            continue
        shown = re.sub(r"^(empty |nested )?(object|array|complex|scalar) ", "", name)
        assert document.value == json.loads(shown), name
        assert json.loads(document.text) == json.loads(shown), name
    assert seen == 78


def test_vitess_opaque_text():
    """What MySQL prints for the values that have no JSON syntax."""
    texts = {
        case["name"]: JsonDocument(bytes.fromhex(case["hex"])).text
        for case in cases("vitess/binlog_json_test.json")
        if case["name"] in VITESS_OPAQUE
    }
    assert texts == {
        'datetime "2015-01-15 23:24:25.000000"': '"2015-01-15 23:24:25.000000"',
        'time "23:24:25.000000"': '"23:24:25.000000"',
        'time "23:24:25.120000"': '"23:24:25.120000"',
        'date "2015-01-15"': '"2015-01-15"',
        'decimal "123456789.1234"': "123456789.1234",
        'small decimal "1.99"': "1.99",
        "bit literal 0xCAFE": '"base64:type16:yv4="',
        "opaque string 0xCAFE": '"base64:type15:yv4="',
        "opaque blob 0xCAFE": '"base64:type252:yv4="',
    }


def test_vitess_cells():
    cells = [case for case in cases("vitess/rbr_test.json") if case["type"] == "JSON"]
    assert len(cells) == 2
    for case in cells:
        cell = bytes.fromhex(case["hex"])
        assert JsonDocument(cell[int(case["metadata"]) :]).text == case["expected"]


# line of the Go file -> diffs as the comments there, which are mysqlbinlog's, have them;
# None where the JSON column was logged whole.
VITESS_PARTIAL = {
    338: ['insert $.role "manager"'],
    369: ['replace $.role "IC"'],
    392: ["remove $.salary"],
    458: ['replace $.day "monday"', "remove $.favorite_color"],
    508: ['replace $.day "tuesday"', "remove $.favorite_color", 'insert $.hobby "skiing"'],
    532: ["replace $.salary null"],
    554: ["replace $.salary 110", 'replace $.role "IC"'],
    575: None,
    598: None,
    # The comment shows an object; the bytes are a string that holds an object's text.
    618: [
        r'insert $.misc "{\"address\":\"1012 S Park\", \"town\":\"Hastings\", \"state\":\"MI\"}"'
    ],
    678: [],
}
VITESS_WHOLE = {575: "null", 598: '"null"'}


def test_vitess_partial_updates():
    name = "vitess/binlog_event_mysql56_test.json"
    found = [c for c in cases(name) if c.get("test") == "TestMySQL56PartialUpdateRowsEvent"]
    seen = set()
    for case in found:
        if case.get("var") != "rawEvent" or case["line"] not in VITESS_PARTIAL:
            continue
        seen.add(case["line"])
        raw = bytes.fromhex(case["hex"])
        body = ByteReader(raw, 19 + 8)
        body.skip(body.uint(2) - 2)
        assert body.lenenc() == 3
        body.skip(2)
        rows = list(images(body, [LONGLONG, VARCHAR, JSON], partial=True))
        wanted = VITESS_PARTIAL[case["line"]]
        assert len(rows) % 2 == 0
        for (before, _), (after, is_diff) in zip(rows[::2], rows[1::2], strict=True):
            assert is_diff == (wanted is not None)
            if wanted is None:
                assert JsonDocument(after[2]).text == VITESS_WHOLE[case["line"]]
                continue
            diffs = decode_diffs(after[2])
            assert [str(diff) for diff in diffs] == wanted
            expected = json.loads(JsonDocument(before[2]).text)
            for diff in diffs:
                key = diff.path.removeprefix("$.")
                if diff.operation is JsonDiffOperation.REMOVE:
                    del expected[key]
                else:
                    assert (key in expected) == (diff.operation is JsonDiffOperation.REPLACE)
                    expected[key] = diff.value.value
            assert apply_diffs(JsonDocument(before[2]), diffs).value == expected
    assert seen == VITESS_PARTIAL.keys()


# -- go-mysql -------------------------------------------------------------------------------------


def test_doubles():
    doubles = cases("go-mysql/json_double_mysql8045_text.json")
    assert len(doubles) == 90
    for case in doubles:
        assert double_text(float(case["double"])) == case["mysql_text"], case


def go_rows(case: dict, types: list[int]) -> list[list]:
    body = ByteReader(bytes.fromhex(case["hex"]), 8)
    body.skip(body.uint(2) - 2)
    count = body.lenenc()
    assert count == len(types)
    body.skip(1)
    if case["hex"][24:26] == "ff" and case["line"] >= 636:
        body.skip(1)
    return list(images(body, types))


@pytest.mark.parametrize("test", ["TestParseJson", "TestParseJsonDecimal"])
def test_go_mysql_parse(test):
    table_map, *rows = cases("go-mysql/row_event_test.json", test)
    assert table_map["var"] == "tableMapEventData"
    (null,), (short,), (long,) = (go_rows(case, [JSON, DECIMAL_10]) for case in rows)
    assert null == [None, b"\x80\0\0\0\x01"]
    assert JsonDocument(short[0]).text == '{"key1": "value1", "key2": "value2"}'
    text = JsonDocument(long[0]).value["text"]
    assert text.startswith("Lorem ipsum dolor sit amet, consectetuer adipiscing elit.")
    assert len(text) == 2750


# MySQL 5.7.22 logged broken JSON in these images: the size of an object with one member and not
# its bytes. What the document was cannot be known (go-mysql makes it null), so it is refused.
BROKEN_BY_MYSQL_5_7_22 = "0001000c00"


def test_go_mysql_compatibility():
    table_map, *found = cases("go-mysql/row_event_test.json", "TestJsonCompatibility")
    assert table_map["var"] == "tableMapEventData"
    texts = []
    for case in found:
        row_texts = []
        for image in go_rows(case, [LONG, VARCHAR, JSON, LONG]):
            document = JsonDocument(image[2])
            if image[2].hex() == BROKEN_BY_MYSQL_5_7_22:
                with pytest.raises(ColumnDecodeError, match="12 bytes where 4"):
                    _ = document.text
                row_texts.append(None)
            else:
                row_texts.append(document.text)
        texts.append(row_texts)
    assert texts == [
        ["{}"],
        ["{}", '{"a": 1234}'],
        ['{"a": 1234}', "{}"],
        [None, '{"a": 1234}'],
        ["{}", "{}"],
    ]


def test_go_mysql_empty_json():
    """Empty bytes in a NOT NULL column, which MySQL shows as null."""
    (case,) = [
        case
        for case in cases("go-mysql/parser_test.json", "TestRowsEventDecodeImageWithEmptyJSON")
        if case["var"] == "data"
    ]
    body = ByteReader(bytes.fromhex(case["hex"]), 2)
    types = [LONG, LONG, JSON, JSON, JSON, DATETIME2, DATETIME2, LONG]
    (row,) = images(body, types)
    assert row[:2] == [994294, 38842347]
    assert [JsonDocument(value).text for value in row[2:5]] == ["null", "null", "null"]


# -- mysql-binlog-connector-java and mage-os ------------------------------------------------------


def test_java_updated_in_position():
    """The same document written anew by 5.7, and updated in place by 8.0 with holes."""
    found = cases("mysql-binlog-connector-java/JsonPartialUpdateParseTest.json")
    written, updated = (JsonDocument(bytes.fromhex(case["hex"])) for case in found)
    assert written.text == updated.text
    assert "17fc98" not in updated.text
    assert updated.value["1f3a2ea5bc1f60258df20521bee9ac636df69a3a"] == {"currency": "USD"}
    assert b"17fc98" in updated.data
    assert updated.compacted().data == written.compacted().data == written.data


def test_mage_os():
    found = {case["var"]: case for case in cases("mage-os-database-changelog/test_fixture.json")}
    types = [LONG, LONG, LONG, LONG, JSON]
    body = ByteReader(bytes.fromhex(found["UPDATE_ROWS_JSON"]["hex"]), 13)
    full = list(images(body, types))
    assert len(full) == 4
    plain = {"flag": False, "labels": ["red", "blue", "purple"], "featured": True}
    for before, after in zip(full[::2], full[1::2], strict=True):
        assert JsonDocument(before[4]).value == plain
        assert JsonDocument(after[4]).value == plain | {"season": ["winter", "spring"]}

    # PARTIAL_UPDATE_ROWS: the before images have the id only, the after images the JSON diff only.
    body = ByteReader(bytes.fromhex(found["PARTIAL_UPDATE_ENTITY_JSON"]["hex"]), 10)
    assert (body.lenenc(), body.uint(1), body.uint(1)) == (5, 0x01, 0x10)
    for row_id in (1, 2):
        assert (body.uint(1), body.uint(4)) == (0, row_id)
        assert (body.lenenc(), body.uint(1), body.uint(1)) == (1, 1, 0)
        diffs = decode_diffs(body.take(body.uint(4)))
        assert [str(diff) for diff in diffs] == ['insert $.season ["winter", "spring"]']
        before, after = full[2 * row_id - 2], full[2 * row_id - 1]
        assert apply_diffs(JsonDocument(before[4]), diffs).data == after[4]
    assert not body.remaining
