"""GTIDs of the compatible interface: sets of intervals that add, subtract and come back from bytes."""

import io
import random

import pytest

from replica_client.compat.pymysqlreplication.gtid import Gtid, GtidSet

SID = "57b70f4e-20d3-11e5-a393-4a63946f7eac"
OTHER = "deadbeef-20d3-11e5-a393-4a63946f7eac"


def _numbers(gtid: Gtid) -> set[int]:
    return {number for first, behind in gtid.intervals for number in range(first, behind)}


def test_intervals_are_sets_of_numbers():
    rng = random.Random(1)
    for _ in range(300):
        one, two = (
            GtidSet([Gtid(f"{SID}:{first}-{first + rng.randrange(5)}") for first in firsts])
            for firsts in (
                [rng.randrange(1, 40) for _ in range(rng.randint(1, 4))] for _ in range(2)
            )
        )
        left, right = one.gtids[0], two.gtids[0]
        assert _numbers((one + two).gtids[0]) == _numbers(left) | _numbers(right)
        assert _numbers(left - right) == _numbers(left) - _numbers(right)
        assert (right in left) == (_numbers(right) <= _numbers(left))
        assert GtidSet(str(one)) == one
        assert GtidSet.decode(io.BytesIO(one.encode())) == one
        assert len(one.encode()) == one.encoded_length


@pytest.mark.parametrize(
    "text",
    ["", "x", f"{SID}", f"{SID}:", f"{SID}:0x1", f"{SID}:5-3", f"{SID}:1-3:2-4", f"{SID}:-1"],
)
def test_what_is_no_gtid_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        Gtid(text)


def test_servers_do_not_mix():
    with pytest.raises(ValueError, match="different SID"):
        Gtid(f"{SID}:1") + Gtid(f"{OTHER}:1")
    assert str(GtidSet(f"{SID}:1,\n{OTHER}:2")) == f"{SID}:1,{OTHER}:2"
