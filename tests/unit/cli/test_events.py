"""``replica-client events``."""

import itertools
import zlib
from pathlib import Path

import pytest

import replica_client as rc
import replica_client.cli.event_lines as event_fields_module
from replica_client.cli.event_lines import event_fields
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogFormat
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.unit.cli.conftest import DATA


def test_json_has_the_promised_fields(run, shop):
    result = run("events", "--json", *shop)
    assert result.status == 0
    assert result.err == ""
    promised = (
        "file position size type type_code timestamp server_id next_position flags checksum"
    ).split()
    for record in result.records:
        assert set(promised) <= set(record)
        assert isinstance(record["fields"], dict)
    first = result.records[0]
    assert (first["file"], first["position"], first["type_code"]) == ("shop-bin.000001", 4, 15)
    assert first["fields"]["server_version"].startswith("9.7")


def test_positions_follow_from_sizes(run, shop):
    outer = [r for r in run("events", "--json", shop[0]).records if "inner_index" not in r]
    for record, after in itertools.pairwise(outer):
        assert record["position"] + record["size"] == after["position"]
    assert outer[-1]["position"] + outer[-1]["size"] == (DATA / "shop-bin.000001").stat().st_size


def test_statements_and_tables_are_readable(run, shop):
    result = run("events", *shop)
    assert "CREATE DATABASE shop" in result.out
    assert "shop.customers (id " in result.out
    assert result.lines[0].split()[:4] == ["file", "position", "size", "type"]
    count = len(run("events", "--json", *shop).lines)
    assert len(result.lines) == count + 1


def test_start_takes_a_position(run, shop):
    everything = run("events", "--json", *shop).records
    begin = next(r for r in everything if r["type"] == "GTID_LOG_EVENT" and r["position"] > 400)
    later = run(
        "events", "--json", "--start", f"{begin['file']}:{begin['position']}", *shop
    ).records
    assert later == everything[everything.index(begin) :]


def test_values_that_are_not_text_are_base64():
    # QUERY_EVENT with a query that is no UTF-8 and no status variables.
    body = bytes.fromhex("01000000 00000000 04 0000 0000") + b"test\0" + b"caf\xe9"
    header = (0).to_bytes(4, "little") + b"\x02" + (1).to_bytes(4, "little")
    header += (19 + len(body)).to_bytes(4, "little") + bytes(6)
    layout = BinlogFormat(checksum_algorithm=ChecksumAlgorithm.OFF)
    event = BinlogDecoder(format=layout).decode(header + body, 4)
    assert event_fields(event)["query"] == {"$binary": "Y2Fm6Q=="}
    assert event_fields(event)["schema"] == "test"


@pytest.mark.parametrize("command", [("events", "--json"), ("changes", "--json"), ("check",)])
def test_broken_metadata_of_a_table_tells_where(run, shop, tmp_path, command):
    data = bytearray(Path(shop[0]).read_bytes())
    at = 4
    while data[at + 4] != EventType.TABLE_MAP_EVENT:
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    end = at + int.from_bytes(data[at + 9 : at + 13], "little") - 4
    data[end - 3 : end] = b"\xff\xfe\xff"  # a field that is longer than the event
    data[end : end + 4] = zlib.crc32(data[at:end]).to_bytes(4, "little")
    broken = tmp_path / "broken.000001"
    broken.write_bytes(data)
    result = run(*command, broken)
    assert result.status == 1
    assert "broken.000001" in result.err
    assert "position" in result.err
    assert "table metadata field" in result.err


def test_tables_that_look_alike_are_shown_alike_and_others_are_not(shop):
    def shown(names: list[str], *, anew: bool) -> list[dict]:
        found = []
        for name in names:
            for event in rc.open_binlog(name).events():
                if event.header.type_code == EventType.TABLE_MAP_EVENT:
                    if anew:
                        event_fields_module._COLUMNS.clear()
                    found.append(event_fields(event))
        return found

    anew = shown(shop, anew=True)
    event_fields_module._COLUMNS.clear()
    assert shown(shop, anew=False) == anew
    assert shown(shop[::-1], anew=False) == shown(shop[::-1], anew=True)
    assert len({str(one["metadata"]) for one in anew}) > 1
