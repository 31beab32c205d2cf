"""The client without asyncio: the same as with it, in an ordinary thread."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.errors import StreamStateError
from replica_client.rows.json_values import change_to_json
from replica_client.testing.faults import CutAt, Fault
from tests.recipes.served import served

DATA = Path(rc.__file__).parent / "testing" / "data"
FAST = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0)


def follow(url: str, **options: object) -> rc.FollowedSource:
    options.setdefault("start", "earliest")
    options.setdefault("stop_at_end", True)
    return rc.follow(url, reconnect=FAST, **options)


WHOLE = [change_to_json(change) for change in rc.open_binlog(DATA).changes()]


def test_all_iterators_give_what_files_give() -> None:
    with served() as source:
        assert [change_to_json(change) for change in follow(source.url)] == WHOLE
        with follow(source.url) as stream:
            transactions = list(stream.transactions())
            assert stream.position == transactions[-1].position
        assert [change_to_json(change) for one in transactions for change in one.changes] == WHOLE
        with follow(source.url) as stream:
            rows = sum(batch.num_rows for batch in stream.batches())
        assert rows == sum(batch.num_rows for batch in rc.open_binlog(DATA).batches())
        with follow(source.url) as stream:
            bodies = [e.body for e in stream.events() if e.header.timestamp]
        assert bodies == [e.body for e in rc.open_binlog(DATA).events() if e.header.timestamp]


@pytest.mark.parametrize("ahead", [1, 3, 1024])
def test_the_position_is_never_ahead_of_what_was_given(
    ahead: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However far it reads ahead: each run stops amid a transaction, and the next goes on there."""
    monkeypatch.setattr("replica_client.stream.live.follow.CHUNK_SIZE", ahead)
    found: list[str] = []
    store = tmp_path / "position"
    with served() as source:
        for _ in range(len(WHOLE) + 1):
            kept: list[str] = []
            with follow(source.url, position_store=store) as stream:
                start = stream.position
                for change in stream:
                    kept.append(change_to_json(change))
                    if stream.position != start:
                        # Everything but this change is behind us.
                        found += kept[:-1]
                        stream.acknowledge(stream.position)
                        break
                else:
                    found += kept
                    break
    assert found == WHOLE


def test_an_iterator_that_was_left_goes_on() -> None:
    with served() as source, follow(source.url) as stream:
        found = []
        while True:
            for change in stream.changes():
                found.append(change_to_json(change))
                break
            else:
                break
        assert found == WHOLE
        with pytest.raises(rc.ConfigError, match=r"read by changes\(notices=False\)"):
            stream.batches()


def test_cuts() -> None:
    faults: list[Fault] = [CutAt(700, connection=0), CutAt(1900, connection=1)]
    with served(faults=faults) as source:
        assert [change_to_json(change) for change in follow(source.url)] == WHOLE


def test_errors_arrive_where_the_iterator_is() -> None:
    with served() as source:
        stream = follow(source.url, start=rc.Position("shop-bin.000001", 5))
        with pytest.raises(rc.ReplicaClientError):
            list(stream)
        with pytest.raises(StreamStateError, match="opened before"):
            stream.open()


def test_nothing_is_there_before_it_is_opened() -> None:
    stream = rc.follow("mysql://repl@127.0.0.1:1/")
    with pytest.raises(StreamStateError, match="not open"):
        next(stream.changes())
    with pytest.raises(StreamStateError):
        stream.acknowledge(rc.Position("a.000001", 4))
    with pytest.raises(StreamStateError):
        stream.flush()
    unreachable = rc.follow("mysql://repl@127.0.0.1:1/", attempts=1)
    with pytest.raises(rc.TransportError):
        unreachable.open()
    assert all(thread.name != "replica_client" for thread in threading.enumerate())


def test_another_thread_closes_it() -> None:
    with served() as source:
        stream = follow(source.url, stop_at_end=False).open()
        closer = threading.Timer(0.3, stream.close)
        closer.start()
        began = time.monotonic()
        assert [change_to_json(change) for change in stream] == WHOLE
        assert time.monotonic() - began < 20
        closer.join()
        stream.close()
    assert all(thread.name != "replica_client" for thread in threading.enumerate())


# Ctrl-C is heard also where the tests run in the background of a shell, which ignores it for them.
_WAITING = """
import signal, sys, replica_client as rc
signal.signal(signal.SIGINT, signal.default_int_handler)
with rc.follow(sys.argv[1], start="earliest") as stream:
    for change in stream:
        print(change.table, flush=True)
"""


def test_control_c_ends_it_at_once() -> None:
    with served() as source:
        command = [sys.executable, "-c", _WAITING, source.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in WHOLE:
                process.stdout.readline()
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
            assert time.monotonic() - began < 10
        assert said.splitlines()[-1] == b"KeyboardInterrupt", said
