"""``replica-client changes``: what it prints, and that positions are saved after the output."""

import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest

from replica_client.cli.acknowledging import Delivery
from replica_client.cli.output import Lines
from replica_client.protocol.position import Position
from replica_client.stream.position.stores.file import FilePositionStore

FIELDS = (
    "file position event_index row_index gtid timestamp kind database table before after"
).split()


def test_json_has_the_promised_fields_in_order(run, shop):
    result = run("changes", "--json", *shop)
    assert result.status == 0
    assert result.err == ""
    assert len(result.records) == 87
    for record in result.records:
        assert list(record) == FIELDS
        assert (record["before"] is None) == (record["kind"] == "insert")
        assert (record["after"] is None) == (record["kind"] == "delete")
    first = result.records[0]
    assert first["after"]["name"] == "Ada Lovelace"
    assert (first["database"], first["table"], first["kind"]) == ("shop", "customers", "insert")


def test_a_directory_is_read_in_order(run, shop):
    directory = Path(shop[0]).parent
    assert run("changes", directory).out == run("changes", *shop).out


def test_tables_chooses(run, shop):
    records = run("changes", "--json", "--tables", "shop.prod*", *shop).records
    assert records
    assert {record["table"] for record in records} == {"products"}


def test_the_table_shows_what_an_update_changed(run, shop):
    result = run("changes", *shop)
    assert result.lines[0].split() == ["position", "committed", "(UTC)", "kind", "table", "row"]
    assert 'tier="basic"→"gold"' in result.out
    assert len(result.lines) == 88


def test_a_second_run_continues_where_the_first_ended(run, shop, tmp_path):
    position_file = tmp_path / "shop.position"
    whole = run("changes", "--json", *shop).out
    first = run("changes", "--json", "--position-file", position_file, shop[0]).out
    assert 0 < len(first) < len(whole)
    second = run("changes", "--json", "--position-file", position_file, *shop).out
    assert first + second == whole
    third = run("changes", "--json", "--position-file", position_file, *shop)
    assert (third.status, third.out) == (0, "")


def test_a_position_file_wins_over_start(run, shop, tmp_path):
    position_file = tmp_path / "shop.position"
    run("changes", "--position-file", position_file, *shop)
    result = run(
        "changes", "--start", "earliest", "--json", "--position-file", position_file, *shop
    )
    assert result.out == ""


def test_a_damaged_position_file_is_one_line(run, shop, tmp_path):
    position_file = tmp_path / "shop.position"
    position_file.write_text("{", encoding="utf-8")
    result = run("changes", "--position-file", position_file, *shop)
    assert result.status == 1
    assert result.out == ""
    assert len(result.err.splitlines()) == 1
    assert str(position_file) in result.err
    assert position_file.read_text(encoding="utf-8") == "{"


@pytest.mark.parametrize("damage", ["x", 7, None, "", "eJwDAAAAAAE=", ["a"]])
@pytest.mark.parametrize("part", ["schema_history", "losses"])
def test_a_damaged_part_of_a_position_file_names_it_and_the_remedy(
    run, shop, tmp_path, part, damage
):
    position_file = tmp_path / "shop.position"
    run("changes", "--position-file", position_file, *shop)
    document = json.loads(position_file.read_text(encoding="utf-8"))
    document["state"][part] = damage
    position_file.write_text(json.dumps(document), encoding="utf-8")
    result = run("changes", "--position-file", position_file, *shop)
    assert (result.status, result.out) == (1, "")
    assert len(result.err.splitlines()) == 1
    assert f"position file {position_file} is damaged" in result.err
    assert "position set" in result.err


def test_a_position_that_cannot_be_saved_is_one_line(run, shop, tmp_path):
    result = run("changes", "--position-file", tmp_path / "none" / "x", *shop)
    assert result.status == 1
    assert "its directory does not exist: create it" in result.err


def test_everything_before_a_fault_is_delivered_and_saved(run, shop, tmp_path):
    whole = run("changes", "--json", shop[0]).records
    fault = whole[-1]["position"]
    data = bytearray(Path(shop[0]).read_bytes())
    data[fault + 30] ^= 0xFF
    broken = tmp_path / "shop-bin.000001"
    broken.write_bytes(data)
    position_file = tmp_path / "p"
    result = run("changes", "--json", "--position-file", position_file, broken)
    assert result.status == 1
    assert "CRC-32" in result.err
    assert "copy it again from the source" in result.err
    last_gtid = whole[-1]["gtid"]
    assert result.records == [record for record in whole if record["gtid"] != last_gtid]
    broken.write_bytes(Path(shop[0]).read_bytes())
    rest = run("changes", "--json", "--position-file", position_file, broken)
    assert result.records + rest.records == whole


class Recorder:
    """A stream and a position store that note the order in which they are used."""

    def __init__(self):
        self.calls = []

    def write(self, text):
        self.calls.append(("write", text.strip()))

    def flush(self):
        self.calls.append(("flush",))

    def fileno(self):
        raise AttributeError

    def save(self, position, state=None):
        self.calls.append(("save", position.offset))


def test_output_is_flushed_strictly_before_the_position_is_saved():
    recorder = Recorder()
    lines = Lines(stream=recorder)
    delivery = Delivery(lines, recorder)
    delivery.commit()
    assert recorder.calls == [("flush",)], "nothing delivered, nothing saved"
    recorder.calls.clear()
    lines.line("a")
    delivery.delivered(Position("b.000001", 100))
    lines.line("b")
    delivery.delivered(Position("b.000001", 200))
    delivery.commit()
    delivery.commit()
    assert recorder.calls == [
        ("write", "a"),
        ("write", "b"),
        ("flush",),
        ("save", 200),
        ("flush",),
    ]


def test_no_position_is_saved_when_the_output_fails(tmp_path):
    class FullDisk(Recorder):
        def flush(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = FilePositionStore(tmp_path / "p")
    delivery = Delivery(Lines(stream=FullDisk()), store)
    delivery.delivered(Position("b.000001", 100))
    for _ in range(2):
        with pytest.raises(OSError, match="standard output"):
            delivery.commit()
    assert store.load() is None


def test_an_acknowledgement_that_was_cut_short_is_done_again():
    delivery = Delivery(Lines(stream=Recorder()))
    delivery.delivered(Position("b.000001", 100))
    assert delivery.flush() == Position("b.000001", 100)
    again = delivery.flush()
    assert again == Position("b.000001", 100), "not saved yet"
    delivery.saved(again)
    assert delivery.flush() is None


@pytest.fixture
def source_url(start, shop):
    process = start("serve", *shop)
    return process.stdout.readline().strip()


def test_a_live_source_gives_what_its_files_give(run, shop, source_url):
    live = run("changes", "--json", source_url, "--start", "earliest", "--stop-at-end")
    assert live.status == 0, live.err
    assert live.records == run("changes", "--json", *shop).records


def test_events_of_a_live_source(run, shop, source_url):
    live = run("events", "--json", source_url, "--start", "earliest", "--stop-at-end")
    assert live.status == 0, live.err
    rows = [r for r in live.records if r["type"] == "WRITE_ROWS_EVENT"]
    assert rows == [
        r for r in run("events", "--json", *shop).records if r["type"] == "WRITE_ROWS_EVENT"
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_has_saved_its_position(start, run, shop, source_url, tmp_path, number):
    position_file = tmp_path / "shop.position"
    arguments = ("changes", "--json", source_url, "--position-file", position_file)
    process = start(*arguments, "--start", "earliest")
    lines = [process.stdout.readline() for _ in range(87)]
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")
    assert [json.loads(line) for line in lines] == run("changes", "--json", *shop).records
    saved = FilePositionStore(position_file).load()
    assert saved is not None
    again = run(*arguments, "--stop-at-end")
    assert (again.status, again.out) == (0, "")


def test_an_idle_source_leaves_nothing_unsaved(start, source_url, tmp_path):
    position_file = tmp_path / "shop.position"
    process = start(
        "changes", "--json", source_url, "--start", "earliest", "--position-file", position_file
    )
    for _ in range(87):
        process.stdout.readline()
    deadline = time.monotonic() + 20
    offset = 0
    while offset < 9000 and time.monotonic() < deadline:
        time.sleep(0.05)
        saved = FilePositionStore(position_file).load()
        offset = saved.offset if saved is not None and saved.file == "shop-bin.000002" else 0
    process.kill()
    assert offset > 9000


def test_output_that_nobody_reads_ends_a_live_run_quietly(start, run, shop, source_url, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    position_file = tmp_path / "p"
    process = start(
        *("changes", source_url, "--start", "earliest", "--position-file", position_file),
        stdout=writing,
    )
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")
    # Transactions without rows come first; no row was delivered, so none may be behind the position.
    saved = FilePositionStore(position_file).load()
    first_row = run("changes", "--json", *shop).records[0]
    assert saved is None or saved <= Position(first_row["file"], first_row["position"])


def test_a_wrong_password_is_one_line(run, source_url):
    result = run("changes", source_url.replace("secret", "guess"))
    assert result.status == 1
    assert len(result.err.splitlines()) == 1
    assert "1045" in result.err
    assert "guess" not in result.err


def test_a_source_that_is_away_says_nothing_of_patterns(run):
    result = run("changes", "mysql://repl:secret@127.0.0.1:1/", "--tables", "shop.*")
    assert result.status == 1
    assert "no connection to 127.0.0.1:1" in result.err
    assert "no table was read" not in result.err
