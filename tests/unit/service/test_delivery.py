"""Every change once and in order, whatever fails."""

from __future__ import annotations

import asyncio
import datetime
import json
from base64 import b64decode
from dataclasses import replace

import pytest

from replica_client import open_binlog
from replica_client.errors import BinlogDecodeError, ColumnDecodeError, PoisonChangeError, SinkError
from replica_client.service.dead_letters import DeadLetters
from replica_client.service.delivery import pause_behind
from tests.unit.service.conftest import DATA, running, until

pytestmark = pytest.mark.timeout(60)


def failing(times, error, when=lambda given: True):
    """Something to call before a step that raises ``error`` the first ``times`` times."""
    left = [times]

    def step(given=None):
        if left[0] and when(given):
            left[0] -= 1
            raise error

    return step


def route(service, name="one"):
    return next(one for one in service.routes if one.config.sink.name == name)


async def test_all_changes_once_and_schema_changes_alone(configure, disk, wanted):
    one = disk()
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted)
        seen = route(service).observation
        # What is committed is counted behind the commit.
        await until(lambda: seen.rows == len(wanted))
        assert sum(count for count, _ in one.commits) == len(wanted)
        # The last transactions have no rows.
        await until(lambda: seen.transactions == 18)
        assert all(count == 0 for count, is_schema in one.commits if is_schema)
        assert sum(tally.rows for tally in seen.tables.values()) == len(wanted)
        await until(lambda: service.lag_bytes(route(service)) == 0)
        await until(lambda: seen.lag_seconds() == 0)
    assert not one.is_open


@pytest.mark.parametrize("holds", [True, False])
async def test_the_next_run_goes_on(configure, disk, wanted, holds, source):
    one = disk(holds=holds)
    path = configure(source={"start": "latest"})
    async with running(path) as service:
        await until(lambda: route(service).observation.committed is not None)
    assert one.lines == []
    # What was "latest" at the first start is where the second one goes on.
    opened = one.opened
    async with running(path):
        await until(lambda: one.opened > opened and one.is_open)
        await asyncio.sleep(0.2)
    assert one.lines == []
    assert (path.parent / "state" / "shop.one.position").exists() != holds


async def test_large_transactions_come_in_parts_and_are_committed_whole(configure, disk, wanted):
    one = disk()
    parts = []
    one.before_write = lambda transaction: parts.append(transaction.part)
    async with running(configure(source={"part_size": 300})):
        await until(lambda: one.lines == wanted)
    assert max(parts) > 0


@pytest.mark.parametrize("step", ["before_open", "before_write", "before_commit"])
@pytest.mark.parametrize("retriable", [True, False])
async def test_an_error_of_the_sink_repeats_what_was_not_committed(
    configure, disk, wanted, step, retriable, monkeypatch
):
    monkeypatch.setattr("replica_client.service.route._FAILED_DELAY", 0.05)
    one = disk()
    error = SinkError("away", retriable=retriable)
    calls = []

    def fail(given=None):
        calls.append(1)
        if len(calls) in ((1,) if step == "before_open" else (1, 3, 6)):
            raise error

    setattr(one, step, fail)
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted)
        seen = route(service).observation
        assert seen.retries == (1 if step == "before_open" else 3)
        assert seen.errors[-1].text == "away"
        await until(lambda: str(seen.shown_state) == "streaming")


async def test_an_unexpected_error_of_a_sink_stops_nobody_else(
    configure, disk, wanted, monkeypatch
):
    monkeypatch.setattr("replica_client.service.route._FAILED_DELAY", 0.05)
    bad, good = disk("bad"), disk("good")
    bad.before_write = failing(2, ZeroDivisionError("a fault of theirs"))
    async with running(configure({"name": "bad"}, {"name": "good"})) as service:
        await until(lambda: bad.lines == good.lines == wanted)
        assert route(service, "good").observation.retries == 0
        assert route(service, "bad").observation.retries == 2


async def test_a_slow_sink_holds_no_other_one_back(configure, disk, wanted):
    slow, fast = disk("slow", delay=3.0), disk("fast")
    sinks = {"name": "slow"}, {"name": "fast"}
    async with running(configure(*sinks, daemon={"stop_timeout": 0.2})) as service:
        await until(lambda: fast.lines == wanted, 20)
        assert not slow.lines
        observation = route(service, "slow").observation
        assert str(observation.shown_state) == "streaming"
    assert not slow.is_open  # ended in the middle of its commit, after stop_timeout


async def test_a_stop_commits_what_was_written(configure, disk, wanted):
    one = disk()
    written = []
    one.before_write = written.append
    async with running(configure({"batch_seconds": 60, "batch_rows": 1_000_000})):
        await until(lambda: len(written) == 18)
    assert one.lines == wanted


async def test_batches_are_limited_in_rows(configure, disk, wanted):
    one = disk()
    async with running(configure({"batch_rows": 5, "batch_seconds": 60})):
        await until(lambda: len(one.lines) > len(wanted) - 5)
    assert one.lines == wanted
    assert len([count for count, _ in one.commits if count]) > 5


@pytest.mark.parametrize(
    ("spent", "seconds", "pause"),
    [(0.0, 0.05, 0.05), (0.01, 0.05, 0.03), (0.04, 0.05, 0.04), (3.0, 0.05, 0.05), (0.2, 0.0, 0.0)],
)
def test_a_change_waits_so_many_seconds_with_its_commit(spent, seconds, pause):
    """What commits take does not come on top, but where they take as long as the writing between them."""
    assert pause_behind(spent, seconds) == pytest.approx(pause)


def poison(event, row, where="before_write", error=PoisonChangeError):
    """What finds one row unbearable, as long as it comes."""

    def step(given):
        for transaction in given if isinstance(given, list) else [given]:
            for change in transaction.changes:
                key = (change.table, change.event_index, change.row_index)
                if key == ("orders", event, row):
                    raise error(
                        f"too large in {where}",
                        **(
                            {"event_index": event, "row_index": row}
                            if error is PoisonChangeError
                            else {}
                        ),
                        file=change.file,
                        position=change.offset,
                    )

    return step


@pytest.mark.parametrize("where", ["before_write", "before_commit"])
async def test_a_poisonous_change_goes_to_the_dead_letters_once(
    configure, disk, wanted, where, source
):
    one = disk()
    bad = [
        line
        for line in wanted
        if (change := json.loads(line))["table"] == "orders"
        and (change["event_index"], change["row_index"]) == (3, 1)
    ]
    assert bad
    setattr(one, where, poison(3, 1))
    path = configure({"on_poison": "dead-letter"})
    async with running(path) as service:
        await until(lambda: len(one.lines) >= len(wanted) - len(bad))
        await asyncio.sleep(0.1)
        assert one.lines == [line for line in wanted if line not in bad]
        assert route(service).observation.dead_letters == len(bad)
        letters = route(service).dead_letters
    entries = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [entry["row"] for entry in entries] == [json.loads(line) for line in bad]
    for entry in entries:
        data = (DATA / entry["file"]).read_bytes()
        event = b64decode(entry["event"])
        assert data[entry["position"] : entry["position"] + len(event)] == event
        assert entry["table"] == "shop.orders"
    # From the start again: what is in the file is left out, and not written once more.
    again = disk()
    setattr(again, where, poison(3, 1))
    async with running(path):
        await until(lambda: len(again.lines) >= len(wanted) - len(bad))
    assert again.opened == 1
    assert letters.read_text().splitlines() == [json.dumps(entry) for entry in entries]


async def test_rows_that_cannot_be_decoded_go_as_an_event(configure, disk, wanted):
    one = disk()
    one.before_write = poison(3, 2, error=ColumnDecodeError)
    async with running(configure({"on_poison": "dead-letter"})) as service:
        await until(lambda: route(service).observation.transactions == 18)
        letters = [
            json.loads(line) for line in route(service).dead_letters.read_text().splitlines()
        ]
    assert letters
    positions = {(entry["file"], entry["position"]) for entry in letters}
    left = [
        line
        for line in wanted
        if ((change := json.loads(line))["file"], change["position"]) not in positions
    ]
    assert one.lines == left
    assert all(entry["row_index"] is None and entry["row"] is None for entry in letters)


async def test_a_poisonous_change_stops_its_sink_by_default(configure, disk, wanted):
    one, other = disk(), disk("other")
    one.before_write = poison(3, 1)
    async with running(configure({}, {"name": "other"})) as service:
        await until(lambda: str(route(service).observation.state) == "failed")
        await until(lambda: other.lines == wanted)
        await until(lambda: "too large" in route(service).observation.shown_error)
        assert one.lines == wanted[: len(one.lines)]
        assert not route(service).dead_letters.exists()


async def test_a_cut_line_of_the_dead_letters_is_mended(configure, disk, wanted):
    one = disk()
    one.before_write = poison(3, 1)
    path = configure({"on_poison": "dead-letter"})
    async with running(path) as service:
        await until(lambda: route(service).observation.dead_letters > 0)
        letters = route(service).dead_letters
        await until(lambda: route(service).observation.transactions == 18)
    whole = letters.read_bytes()
    letters.write_bytes(whole[:-10])
    again = disk()
    again.before_write = poison(3, 1)
    async with running(path) as service:
        await until(lambda: len(again.lines) == len(one.lines))
    mended = [json.loads(line) for line in letters.read_text().splitlines()]
    before = [json.loads(line) for line in whole.splitlines()]
    for entry in mended + before:
        del entry["at"]
    assert mended == before


@pytest.mark.parametrize("error", [PoisonChangeError, ColumnDecodeError])
async def test_dead_letters_are_the_same_changes_on_another_server(
    configure, disk, wanted, tmp_path, error
):
    """There they stand in another file, at another place and time, in other events."""
    one = disk()
    one.before_write = poison(3, 1, error)
    async with running(configure({"on_poison": "dead-letter"})) as service:
        await until(lambda: route(service).observation.transactions == 18)
        letters = [
            json.loads(line) for line in route(service).dead_letters.read_text().splitlines()
        ]
    assert letters and all(letter["gtid"] for letter in letters)
    left = iter(one.lines)
    gone = [line for line in wanted if line not in one.lines]
    assert all(line in left for line in wanted if line not in gone)
    text = "".join(json.dumps({**letter, "file": "x.000009"}) + "\n" for letter in letters)
    path = tmp_path / "letters.jsonl"
    path.write_text(text)
    known = DeadLetters(path, lambda count: pytest.fail("written again"))
    got = []
    for transaction in open_binlog(sorted(DATA.glob("shop-bin.*"))).transactions():
        moved = [
            rows.__replace__(event=replace(rows.event, file="y.000001", position=4))
            for rows in transaction.rows
        ]
        kept = await known.leave_out(transaction.__replace__(rows=tuple(moved)), None)
        got += [(change.table, change.kind, change.after) for change in kept.changes]
    all_changes = [
        (change.table, change.kind, change.after)
        for line, change in zip(
            wanted, open_binlog(sorted(DATA.glob("shop-bin.*"))).changes(), strict=True
        )
        if line not in gone
    ]
    assert got == all_changes
    assert path.read_text() == text


async def test_no_commit_is_ahead_of_what_was_written(configure, disk, wanted, monkeypatch):
    """Also where many transactions were read at once, and the idle one looks at every moment."""
    monkeypatch.setattr("replica_client.service.delivery.IDLE_SECONDS", 0.0005)
    monkeypatch.setattr("replica_client.service.delivery._TURN_SECONDS", 0.0)
    ends = [one.position.offset for one in open_binlog(DATA / "shop-bin.000002").transactions()]
    one = disk(write_delay=0.003)
    written = []
    one.before_write = lambda transaction: written.append(transaction.position)
    checkpoints = []
    save = type(one).__setattr__

    def watch(self, name, value):
        if name == "checkpoint" and value is not None:
            checkpoints.append((value.position, list(written)))
        save(self, name, value)

    monkeypatch.setattr(type(one), "__setattr__", watch)
    async with running(configure({"batch_rows": 1, "batch_seconds": 60})):
        await until(lambda: len(written) == 18)
        await asyncio.sleep(0.1)
    assert one.lines == wanted
    assert len(checkpoints) > 5
    for position, before in checkpoints:
        covered = [
            end for end in ends if position.file == "shop-bin.000002" and end <= position.offset
        ]
        seen = [one.offset for one in before if one.file == "shop-bin.000002"]
        assert covered == seen[: len(covered)], (position, before)


@pytest.mark.parametrize("store", [{"type": "sqlite"}, {"type": "file", "path": "positions"}])
async def test_positions_in_the_configured_store(configure, disk, wanted, store, tmp_path):
    one = disk(holds=False)
    path = configure(store=store)
    async with running(path):
        await until(lambda: one.lines == wanted)
    again = disk(holds=False)
    async with running(path) as service:
        await until(lambda: again.is_open and route(service).observation.committed is not None)
        await asyncio.sleep(0.2)
    assert again.lines == []
    name = "state/positions.sqlite" if store["type"] == "sqlite" else "positions/shop.one.position"
    assert (tmp_path / name).exists()


async def test_a_start_by_time_saves_nothing_of_what_it_passes_over(
    configure, disk, wanted, monkeypatch
):
    monkeypatch.setattr("replica_client.service.delivery.IDLE_SECONDS", 0.02)
    (second,) = {
        one.timestamp for one in open_binlog(sorted(DATA.glob("shop-bin.*"))).transactions()
    }

    def at(moment):
        return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat()

    one = disk()
    async with running(configure(source={"start": at(second + 1)})) as service:
        await until(lambda: route(service).observation.received > 5_000)
        await asyncio.sleep(0.3)
        assert (one.lines, one.checkpoint) == ([], None)
    async with running(configure(source={"start": at(second)})):
        await until(lambda: one.lines == wanted)
        # Idle behind the last one, in the last file.
        await until(lambda: one.checkpoint.position.file == "shop-bin.000002")


async def test_a_source_that_waits_is_answered_after_the_commit(configure, disk, wanted, source):
    source.semi_sync = True
    one = disk()
    # Nothing else would commit so soon.
    async with running(configure({"batch_seconds": 60}, source={"semi_sync": True})):
        await until(lambda: one.lines == wanted)

        def acknowledged() -> list[tuple[str, int]]:
            return [session.acknowledged[-1] for session in source.sessions if session.acknowledged]

        # The answer is on its way when the commit is done.
        end = (one.checkpoint.position.file, one.checkpoint.position.offset)
        await until(lambda: acknowledged() == [end])


def test_a_change_is_accused_once(tmp_path):
    """Who accuses again what was left out, or what is in an event that was, gets no help."""
    letters = DeadLetters(tmp_path / "letters", lambda count: None)

    def row(number):
        return PoisonChangeError("no", event_index=1, row_index=number, file="b.1", position=4)

    assert letters.accuse(row(2))
    assert not letters.accuse(row(2))
    assert letters.accuse(row(3))
    assert letters.accuse(BinlogDecodeError("no", file="b.1", position=4))
    assert not letters.accuse(row(4))
    assert not letters.accuse(BinlogDecodeError("no", file="b.1", position=4))
    assert not letters.accuse(BinlogDecodeError("no"))
