"""MariaDB positions without ``gtid_strict_mode``: the last GTID of each domain, whatever its number."""

from __future__ import annotations

import itertools
import random

import pytest

from replica_client.errors import SourceBehindError
from replica_client.protocol.gtid import MariadbGtid, MariadbGtidSet, MariadbSkip
from replica_client.stream.live.source_identity import check_executed

BINLOG = "0-102-101,0-102-102,0-101-101,7-101-9,0-102-103,0-101-103,7-103-3,0-102-104".split(",")


def gtid(text: str) -> MariadbGtid:
    return MariadbGtid.parse(text)


def state_after(count: int, binlog: list[str] = BINLOG) -> MariadbGtidSet:
    state = MariadbGtidSet()
    for one in binlog[:count]:
        state = state.add(gtid(one))
    return state


def position_of(state: MariadbGtidSet) -> MariadbGtidSet:
    """What a replica keeps of it."""
    return MariadbGtidSet(state.positions())


@pytest.mark.parametrize("count", range(len(BINLOG) + 1))
@pytest.mark.parametrize("begin", range(len(BINLOG) + 1))
def test_what_stands_before_a_position_is_passed_over(begin: int, count: int) -> None:
    executed, before = state_after(len(BINLOG)), state_after(begin)
    for have in (state_after(count), position_of(state_after(count))):
        skip = MariadbSkip(have, before, executed)
        sent = [one for one in BINLOG[begin:] if not skip.passes_over(gtid(one))]
        assert sent == BINLOG[max(begin, count) :]
        assert not skip.pending


def test_a_number_that_is_not_there_is_where_the_next_of_its_server_begins() -> None:
    skip = MariadbSkip(MariadbGtidSet.parse("0-1-5"), MariadbGtidSet())
    assert [skip.passes_over(gtid(f"0-1-{number}")) for number in (3, 4, 6, 5)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_position_of_another_binlog_is_decided_by_numbers() -> None:
    """After a failover a server's files may lack the last GTID of the position."""
    executed = MariadbGtidSet.parse("0-2-9")
    skip = MariadbSkip(MariadbGtidSet.parse("0-1-5"), MariadbGtidSet(), executed)
    assert [skip.passes_over(gtid(f"0-2-{number}")) for number in (4, 5, 6)] == [True, True, False]
    waiting = MariadbSkip(MariadbGtidSet.parse("0-1-5"), MariadbGtidSet())
    assert waiting.passes_over(gtid("0-2-6"))
    assert waiting.pending == (gtid("0-1-5"),)


@pytest.mark.parametrize("one", range(len(BINLOG) + 1))
@pytest.mark.parametrize("other", range(len(BINLOG) + 1))
def test_states_compare_by_their_order_in_the_binlog(one: int, other: int) -> None:
    a, b = state_after(one), state_after(other)
    assert (a <= b) is (one <= other)


def test_random_binlogs_without_strict_mode() -> None:
    chance = random.Random(36)
    for _ in range(200):
        numbers = {server: itertools.count(chance.randrange(1, 50)) for server in range(1, 4)}
        binlog = []
        for _ in range(12):
            server = chance.randrange(1, 4)
            binlog.append(f"{chance.randrange(2)}-{server}-{next(numbers[server])}")
        begin, count = chance.randrange(13), chance.randrange(13)
        have = position_of(state_after(count, binlog))
        skip = MariadbSkip(have, state_after(begin, binlog), state_after(12, binlog))
        sent = [one for one in binlog[begin:] if not skip.passes_over(gtid(one))]
        assert sent == binlog[max(begin, count) :], (binlog, begin, count)
        check_executed(have, state_after(12, binlog), "db1")


def test_a_source_lacks_what_neither_the_server_nor_the_domain_has_reached() -> None:
    state = MariadbGtidSet.parse("0-102-102,0-101-101")
    for have in ("0-102-102", "0-101-101", "0-102-101", "0-103-7"):
        check_executed(MariadbGtidSet.parse(have), state, "db1")
    for have, missing in (
        ("0-102-103", "domain 0: 103"),
        ("0-101-102", "domain 0: 0-101-102"),
        ("0-101-150", "domain 0: 103-150"),
        ("5-1-2", "domain 5: 1-2"),
    ):
        with pytest.raises(SourceBehindError) as raised:
            check_executed(MariadbGtidSet.parse(have), state, "db1")
        assert raised.value.missing == missing
