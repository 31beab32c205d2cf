"""Documents and partial updates captured from a real server, with the server's own text."""

import json
from pathlib import Path

import pytest

from replica_client.protocol.binlog.values.json_binary import JsonDocument, encode_json
from replica_client.protocol.binlog.values.json_diff import apply_diffs, decode_diffs, encode_diffs

GOLDEN = json.loads(
    (Path(__file__).parents[4] / "golden" / "json_mysql.json").read_text(encoding="utf-8")
)


def test_there_are_cases():
    assert len(GOLDEN["documents"]) > 200
    assert len(GOLDEN["updates"]) > 50


@pytest.mark.parametrize("case", GOLDEN["documents"], ids=lambda case: case["document"][:24])
def test_document(case):
    data = bytes.fromhex(case["document"])
    document = JsonDocument(data)
    assert document.text == case["text"]
    assert document.compacted().data == data
    assert JsonDocument(encode_json(document.value)).text == case["text"]


@pytest.mark.parametrize("case", GOLDEN["updates"], ids=lambda case: case["diffs"][:24])
def test_update(case):
    data = bytes.fromhex(case["diffs"])
    diffs = decode_diffs(data)
    assert diffs
    assert encode_diffs(diffs) == data
    after = apply_diffs(JsonDocument(bytes.fromhex(case["before"])), diffs)
    assert after.text == case["text"]
