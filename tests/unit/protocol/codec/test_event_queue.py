"""The queue of events against a model: a list of events and the bytes behind it."""

import random
import zlib

import pytest

from replica_client.protocol.codec.event_queue import CAPACITY, EventQueue


def event(rng: random.Random, size: int) -> bytes:
    """An event with its size in its header."""
    return (
        rng.randbytes(4)
        + b"\x1e"
        + rng.randbytes(4)
        + size.to_bytes(4, "little")
        + bytes(size - 13)
    )


def sealed(body: bytes) -> bytes:
    """An event whose last bytes are its checksum."""
    return body[:-4] + zlib.crc32(body[:-4]).to_bytes(4, "little")


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_done_events_stay_whole_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    queue = EventQueue(rng.choice((1, 64, 4096)))
    events: list[bytes] = []
    uncut = b""
    for _ in range(400):
        match rng.randrange(5):
            case 0:
                data = rng.randbytes(rng.choice((0, 1, 30, 3000, 40_000)))
                queue.put(data)
                uncut += data
            case 1:
                data = rng.randbytes(rng.randrange(2000))
                room = queue.room(len(data) + rng.randrange(100))
                room[: len(data)] = data
                queue.received(len(data))
                uncut += data
            case 2 if uncut:
                size = rng.randint(1, min(len(uncut), 5000))
                if rng.random() < 0.2:
                    queue.pass_over(size)
                else:
                    queue.cut(size)
                    events.append(uncut[:size])
                uncut = uncut[size:]
            case 3:
                count = rng.randint(0, len(events))
                queue.drop(count)
                del events[:count]
            case 4 if rng.random() < 0.1:
                assert queue.take_all() == events
                events = []
        assert (len(queue), queue.uncut) == (len(events), len(uncut))
        assert queue.waiting == sum(map(len, events))
        if events:
            at = rng.randrange(len(events))
            assert queue.event(at) == events[at]
        assert queue.peek(0, len(uncut)) == uncut
    assert queue.take_all() == events


def test_many_events_wait() -> None:
    rng = random.Random(1)
    queue = EventQueue()
    events = [event(rng, rng.randint(19, 60)) for _ in range(5000)]
    for at in range(0, 5000, 500):
        queue.put(b"".join(events[at : at + 500]))
        assert queue.split(1 << 30, b"\x0f") == sum(map(len, events[at : at + 500]))
    queue.drop(3000)
    assert queue.take_all() == events[3000:]


@pytest.mark.parametrize("seed", range(30))
def test_events_are_cut_the_same_when_checksums_are_looked_at(seed: int) -> None:
    rng = random.Random(seed)
    queues = (EventQueue(), EventQueue())
    events: list[bytes] = []
    rest = b""
    for _ in range(30):
        size = rng.choice((40, 500, 600))
        more = [event(rng, rng.randint(19, size)) for _ in range(rng.randrange(300))]
        data = rest + b"".join(sealed(one) if rng.random() < 0.99 else one for one in more)
        rest = data[len(data) - rng.randrange(min(len(data), 60) + 1) :]
        data = data[: len(data) - len(rest)]
        sizes = []
        for queue, checks in zip(queues, (True, False), strict=True):
            queue.put(data)
            sizes.append(queue.split(1 << 20, b"\x0f", checks))
        assert sizes[0] == sizes[1]
        rest = queues[0].peek(0, queues[0].uncut) + rest
        for queue in queues:
            queue.pass_over(queue.uncut)
        count = rng.choice((0, 1, len(queues[0]) // 2, len(queues[0])))
        events += [queues[0].event(at) for at in range(count)]
        for queue in queues:
            queue.drop(count)
    assert queues[0].waiting == queues[1].waiting
    assert len(events) + len(queues[0]) > 1000
    assert queues[0].take_all() == queues[1].take_all()


@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("at", range(10))
def test_cutting_stops_where_something_is_wrong(at: int, checks: bool) -> None:
    rng = random.Random(at)
    events = [sealed(event(rng, rng.randint(19, 60))) for _ in range(10)]
    fault = rng.choice(("small", "large", "type", "cut off"))
    bad = bytearray(events[at])
    if fault == "small":
        bad[9:13] = (18).to_bytes(4, "little")
    elif fault == "large":
        bad[9:13] = (101).to_bytes(4, "little")
        bad += bytes(200)
    elif fault == "type":
        bad[4] = 15
    else:
        bad[9:13] = (99).to_bytes(4, "little")
        del events[at + 1 :]
    events[at] = bytes(bad)
    queue = EventQueue()
    queue.put(b"".join(events))
    queue.split(100, b"\x0f", checks)
    assert queue.take_all() == events[:at]


def test_memory_of_a_large_event_is_given_back() -> None:
    queue = EventQueue()
    queue.put(bytes(40 << 20))
    queue.cut(40 << 20)
    queue.drop(1)
    with queue.room(1) as room:
        assert len(room.obj) == CAPACITY  # type: ignore[arg-type]


def test_events_behind_a_very_large_one_do_not_keep_its_memory() -> None:
    rng = random.Random(5)
    large, behind = event(rng, 70 << 20), [event(rng, 1000), event(rng, 40)]
    queue = EventQueue()
    for data in (large, *behind):
        queue.put(data)
        queue.cut(len(data))
    queue.put(b"begun")
    assert queue.take() == large
    room = queue.room(1000)
    assert len(room.obj) < 64 << 20
    assert [queue.take(), queue.take()] == behind
    assert (queue.uncut, queue.peek(0, 5)) == (5, b"begun")
    assert queue.waiting == 0
