"""GTID sets against a real MySQL: its parser, GTID_SUBSET and GTID_SUBTRACT."""

import random

import pymysql
import pytest

from replica_client.protocol.gtid import GtidSet, Intervals
from tests.unit.protocol.gtid.texts import ACCEPTED, REFUSED

pytestmark = pytest.mark.integration

SIDS = [random.Random(n).randbytes(16) for n in range(4)]


def random_set(rng: random.Random, tags: list[str]) -> GtidSet:
    sets = {}
    for _ in range(rng.randrange(0, 6)):
        most = rng.choice([12, 60, 2**40])
        pairs = []
        for _ in range(rng.randrange(1, 9)):
            first = rng.randrange(1, most)
            pairs.append((first, first + rng.randrange(0, max(most // 4, 2))))
        sets[rng.choice(SIDS), rng.choice(tags)] = Intervals(pairs)
    return GtidSet.of_intervals(sets)


def untidy(rng: random.Random, value: GtidSet) -> str:
    """The same set, in another order, with overlaps, spaces and upper case."""
    groups = []
    for (sid, tag), numbers in value.intervals().items():
        head = sid.hex() if rng.random() < 0.3 else str(value).split(":")[0][:0] + _uuid(sid)
        for first, last in numbers:
            middle = rng.randint(first, last)
            items = [f"{first} - {middle}", f"{middle}-{last}", f"{last}-{first - 1}"]
            rng.shuffle(items)
            groups.append(" : ".join([head.upper(), *([tag.upper()] if tag else []), *items]))
    rng.shuffle(groups)
    return " ,\n,".join(groups)


def _uuid(sid: bytes) -> str:
    text = sid.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@pytest.mark.parametrize(
    ("name", "tags"), [("mysql-9.7", ["", "a", "_z9", "tag"]), ("mysql-5.6", [""])]
)
def test_algebra_equals_the_servers(server, name, tags):
    rng = random.Random(20261120)
    with server(name).connected() as connection, connection.cursor() as cursor:
        for _ in range(300):
            a, b = random_set(rng, tags), random_set(rng, tags)
            if rng.random() < 0.3:
                b = a | b
            text = untidy(rng, a) if name == "mysql-9.7" else str(a)
            assert GtidSet.parse(text) == a
            cursor.execute(
                "SELECT GTID_SUBTRACT(%s, ''), GTID_SUBTRACT(%s, %s), GTID_SUBSET(%s, %s),"
                " GTID_SUBTRACT(%s, GTID_SUBTRACT(%s, %s))",
                (text, str(a), str(b), str(a), str(b), str(a), str(a), str(b)),
            )
            canonical, difference, subset, intersection = cursor.fetchone()
            assert str(a) == canonical
            assert str(a - b) == difference
            assert a.issubset(b) == bool(subset)
            assert str(a & b) == intersection


def test_texts_are_read_as_recorded(server):
    with server("mysql-9.7").connected() as connection, connection.cursor() as cursor:
        for text, canonical in ACCEPTED:
            cursor.execute("SELECT GTID_SUBTRACT(%s, '')", (text,))
            assert cursor.fetchone() == (canonical,), text
        for text in REFUSED:
            with pytest.raises(pymysql.err.OperationalError, match="1772"):
                cursor.execute("SELECT GTID_SUBTRACT(%s, '')", (text,))
