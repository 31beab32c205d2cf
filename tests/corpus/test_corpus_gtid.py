"""GTID fixtures of go-mysql (MIT) in the corpus: wire forms and fuzz crashers."""

import ast
import json
import os
from pathlib import Path

import pytest

from replica_client.errors import GtidFormatError
from replica_client.protocol.gtid import GtidSet

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "fixtures" / "go-mysql"

U = "de278ad0-2106-11e4-9f8e-6edd0ca20947"
E = "071a4ecc-1bf9-11f1-a838-e6dd1807d029"
# Texts that the literals stand for, by line of the Go file; the texts are in that file's tests.
TEXTS = {
    202: "",
    208: f"{U}:1-9",
    255: f"{U}:1-9",
    265: f"{U}:abcde:1-9",
    321: f"{U}:1-2:mytag:1-10:12-14:16:18-20",
    442: f"{E}:1-2",
    459: f"{E}:mytagabcdef:1",
    481: f"{E}:1-2:mytagabcdef:1",
    509: f"{E}:1-2:mytagabcdef:1",
}


@pytest.fixture(scope="module", autouse=True)
def _fixtures_there():
    if not FIXTURES.is_dir():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no corpus at {FIXTURES}")


def test_wire_forms():
    cases = json.loads((FIXTURES / "mysql_gtid_test.json").read_text())["cases"]
    seen = set()
    for case in cases:
        data, line = bytes.fromhex(case["hex"]), case["line"]
        if case["test"] == "TestDecodeSid":
            continue  # headers alone: test_headers
        if line == 238:
            # go-mysql refuses a UUID with no intervals; MySQL 9.7 takes it (COM_BINLOG_DUMP_GTID).
            assert GtidSet.decode(data) == GtidSet()
            continue
        if "expected" in case:
            with pytest.raises(GtidFormatError):
                GtidSet.decode(data)
            continue
        seen.add(line)
        value = GtidSet.decode(data)
        assert value.compact() == TEXTS[line], line
        assert value.encode(tags=data[7] == 1) == data, line
        assert GtidSet.parse(TEXTS[line]) == value, line
    assert seen == set(TEXTS)


def test_headers():
    cases = json.loads((FIXTURES / "mysql_gtid_test.json").read_text())["cases"]
    headers = [bytes.fromhex(c["hex"]) for c in cases if c["test"] == "TestDecodeSid"]
    assert [len(header) for header in headers] == [8, 8, 8, 8, 7]
    with pytest.raises(GtidFormatError, match="2 UUIDs"):
        GtidSet.decode(headers[0])
    with pytest.raises(GtidFormatError, match="1 UUIDs"):
        GtidSet.decode(headers[1])
    assert not GtidSet.decode(headers[2])
    with pytest.raises(GtidFormatError, match="1 UUIDs"):
        GtidSet.decode(headers[3])
    with pytest.raises(GtidFormatError, match="header"):
        GtidSet.decode(headers[4])


@pytest.mark.parametrize(
    "folder", ["FuzzDecodeMysqlGTIDSet", "FuzzPreviousGTIDsDecode", "FuzzTag_MarshalBinary"]
)
def test_fuzz_crashers_are_refused_or_read(folder):
    files = sorted((FIXTURES / "fuzz" / folder).iterdir())
    assert files
    for file in files:
        literal = file.read_text(encoding="utf-8").splitlines()[1]
        text = ast.literal_eval(literal[literal.index("(") + 1 : -1])
        if folder == "FuzzTag_MarshalBinary":
            with pytest.raises(GtidFormatError):
                GtidSet.parse(f"{U}:{text}x:1")  # a tag of more than 32 characters
            continue
        # Go's \xNN is a byte, its other characters are UTF-8.
        go = literal[literal.index("(") + 1 : -1].encode().decode("latin-1")
        data = ast.literal_eval(go).encode("latin-1")
        try:
            value = GtidSet.decode(data)
        except GtidFormatError:
            continue
        assert GtidSet.decode(value.encode()) == value
