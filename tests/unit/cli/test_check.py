"""``replica-client check``: intact files pass, and each kind of fault is found and named."""

import json
from pathlib import Path

import pytest

from replica_client.protocol.binlog.events.queries import QueryEvent


def test_intact_files_pass(run, shop):
    result = run("check", *shop)
    assert result.status == 0
    assert result.err == ""
    assert "2 files, 152 events, 87 rows, 0 faults" in result.out
    assert "QUERY_EVENT" in result.out


def test_json_counts_every_event_and_row(run, shop):
    records = run("check", "--json", *shop).records
    assert sum(record["events"] for record in records) == 152
    assert sum(record["rows"] for record in records) == 87
    sizes = sum(Path(path).stat().st_size - 4 for path in shop)
    assert sum(record["bytes"] for record in records) == sizes


def test_a_changed_byte_is_found_where_it_is(run, damaged):
    result = run("check", damaged)
    assert result.status == 1
    (fault,) = [line for line in result.lines if line.startswith("FAULT")]
    assert fault.startswith(
        "FAULT ChecksumMismatchError QUERY_EVENT: file damaged.000001, position 444: CRC-32 is "
    )
    assert len(result.err.splitlines()) == 1
    assert "1 fault of 1 kind, the first in file damaged.000001 at position 444" in result.err
    whole = run("check", "--json", damaged).records
    assert whole[-1]["fault"] == "ChecksumMismatchError QUERY_EVENT"
    assert (whole[-1]["position"], whole[-1]["count"]) == (444, 1)


@pytest.mark.parametrize("missing", [1, 10, 25])
def test_a_cut_file_is_found(run, shop, tmp_path, missing):
    data = Path(shop[0]).read_bytes()
    path = tmp_path / "cut.000001"
    path.write_bytes(data[:-missing])
    result = run("check", path)
    assert result.status == 1
    assert "the file ends inside an event" in result.err
    assert "FAULT TruncatedEventError" in result.out


def test_the_first_fault_of_each_kind_is_kept_and_all_are_counted(run, shop, tmp_path):
    data = bytearray(Path(shop[0]).read_bytes())
    events = run("events", "--json", shop[0]).records
    for event in events:
        if event["type"] in ("XID_EVENT", "GTID_LOG_EVENT"):
            data[event["position"] + event["size"] - 1] ^= 0xFF
    path = tmp_path / "many.000001"
    path.write_bytes(data)
    faults = [r for r in run("check", "--json", path).records if "fault" in r]
    for kind in ("XID_EVENT", "GTID_LOG_EVENT"):
        of_kind = [event for event in events if event["type"] == kind]
        (fault,) = [f for f in faults if f["fault"] == f"ChecksumMismatchError {kind}"]
        assert fault["count"] == len(of_kind)
        assert fault["position"] == of_kind[0]["position"]


def test_an_event_that_encodes_to_other_bytes_is_a_fault(run, shop, monkeypatch):
    encode = QueryEvent.encode
    monkeypatch.setattr(QueryEvent, "encode", lambda self, *rest: encode(self, *rest) + b" ")
    result = run("check", shop[0])
    assert result.status == 1
    assert "encoded again, " in result.err
    assert "BinlogDecodeError QUERY_EVENT" in result.out


def test_a_row_that_does_not_decode_is_a_fault(run, shop, tmp_path):
    from replica_client.protocol.codec.crc import crc32

    data = bytearray(Path(shop[0]).read_bytes())
    event = next(
        r for r in run("events", "--json", shop[0]).records if r["type"] == "WRITE_ROWS_EVENT"
    )
    begin, end = event["position"], event["position"] + event["size"]
    del data[end - 5]
    data[begin + 9 : begin + 13] = (event["size"] - 1).to_bytes(4, "little")
    data[end - 5 : end - 1] = crc32(bytes(data[begin : end - 5])).to_bytes(4, "little")
    path = tmp_path / "rows.000001"
    path.write_bytes(data)
    result = run("check", path)
    assert result.status == 1
    assert "ColumnDecodeError WRITE_ROWS_EVENT" in result.out
    assert f"position {begin}" in result.out


def test_an_empty_file_is_a_fault(run, tmp_path):
    path = tmp_path / "empty.000001"
    path.touch()
    result = run("check", path)
    assert result.status == 1
    assert "empty.000001" in result.err


ENCRYPTED = Path(__file__).parents[2] / "golden" / "mariadb-10.11.18" / "encrypted.binlog"


@pytest.mark.parametrize("command", ["check", "changes", "events", "annotate"])
def test_an_encrypted_file_without_its_key_asks_for_the_key_file(run, command):
    result = run(command, ENCRYPTED)
    assert result.status == 1
    assert "which was not given; give the server's key file with --key-file FILE" in result.err
    assert "copy" not in result.err


def test_an_encrypted_file_with_its_key_passes(run, tmp_path):
    keys = json.loads(ENCRYPTED.with_suffix(".json").read_text())["keys"]
    key_file = tmp_path / "keys.txt"
    key_file.write_text("".join(f"{number};{key}\n" for number, key in keys.items()))
    result = run("check", ENCRYPTED, "--key-file", key_file)
    assert result.status == 0
    assert "0 faults" in result.out


def test_a_key_that_does_not_fit_asks_for_the_key_file(run, tmp_path):
    key_file = tmp_path / "keys.txt"
    key_file.write_text(f"1;{'ab' * 32}\n")
    result = run("check", ENCRYPTED, "--key-file", key_file)
    assert result.status == 1
    assert "does not decrypt" in result.err
    assert "--key-file FILE" in result.err
