"""What MySQL 9.7 answers to `SELECT @@global.gtid_owned`, and what it never would."""

import pytest

from replica_client.errors import GtidFormatError
from replica_client.protocol.gtid import GtidSet, parse_owned_gtids
from tests.unit.protocol.gtid.texts import U, V


@pytest.mark.parametrize(
    ("owned", "gtids"),
    [
        ("", ""),
        (f"{U}:5#14:4#12:3#10", f"{U}:3-5"),
        # What 9.7 answered: no separator between a thread's id and the next UUID.
        (
            f"{U}:7#15:9#11{U}:tagged:9#137f99a819-e73f-11f1-a881-02fc00000001:5#14:4#1",
            f"{U}:7:9:tagged:9,7f99a819-e73f-11f1-a881-02fc00000001:4-5",
        ),
        (f"{U}:7#15,\n{V}:5#14\n", f"{U}:7,{V}:5"),
        (f"{U}:7#15#16", f"{U}:7"),
        (f"{U}:deadbeef:7#12345678{V}:1#2", f"{U}:deadbeef:7,{V}:1"),
    ],
)
def test_owned_gtids(owned, gtids):
    found = parse_owned_gtids(owned)
    assert found == GtidSet.parse(gtids)
    assert found.count == owned.count("#") - owned.count("#16")


@pytest.mark.parametrize("size", range(8))
def test_owned_gtids_of_threads_whose_ids_look_like_the_next_uuid(size):
    """A thread's id of any length in front of a UUID of digits only."""
    digits = "12345678-1234-1234-1234-123456789012"
    found = parse_owned_gtids(f"{digits}:1#{'9' * (size + 1)}{digits}:2#1")
    assert found == GtidSet.parse(f"{digits}:1-2")


@pytest.mark.parametrize(
    "text",
    [
        "u:5#1",
        f"{U}",
        f"{U}:",
        f"{U}:5",
        f"{U}5#1",
        f"x{U}:5#1",
        f"{U}:0#1",
        f"{U}:{2**63}#1",
        f"{U}:5#",
    ],
)
def test_owned_gtids_of_another_form(text):
    with pytest.raises(GtidFormatError):
        parse_owned_gtids(text)
