"""The compatible interfaces have what the originals have; ``scripts/proofs/surface --write`` looks at these."""

import json
from pathlib import Path

import pytest

from replica_client.compat.shim import REPLACED
from tests.unit.compat.surface import arguments_of, missing, surface_of

KEPT = Path(__file__).with_name("surface.json")
EXCEPTIONS = {
    "arguments of asyncmy.replication.events.": "the stream makes the events",
    "arguments of asyncmy.replication.row_events.": "the stream makes the events",
    "attribute pymysqlreplication.packet.BinLogPacketWrapper.packet": "no driver has one",
    "attribute pymysqlreplication.event.UserVarEvent.type_to_codes_and_method": "how theirs reads it",
    "class asyncmy.replication.binlogstream.Connection": "of asyncmy.connection",
    "class asyncmy.replication.binlogstream.DictCursor": "of asyncmy.cursors",
    "class asyncmy.replication.binlogstream.OperationalError": "of asyncmy.errors",
}
"""Beginnings of what is left out, and why."""


@pytest.mark.parametrize("package", REPLACED)
def test_nothing_is_missing(package):
    theirs = json.loads(KEPT.read_text())[package]
    lines = missing(theirs, surface_of(REPLACED[package], package))
    assert [line for line in lines if not line.startswith(tuple(EXCEPTIONS))] == []


def test_what_is_missing_is_reported():
    def one(a, b=1): ...
    def two(a, b=1, *, c=2): ...
    def three(a): ...
    def four(a, b): ...

    def surface(function, value="1", members=()):
        arguments = arguments_of(function)
        return {
            "m": {
                "f": {"kind": "function", "arguments": arguments},
                "V": {"kind": "value", "value": value},
                "C": {"kind": "class", "members": {n: {"kind": "attribute"} for n in members}},
            }
        }

    whole = surface(one, members=["x", "y"])
    assert missing(whole, whole) == []
    assert missing(whole, surface(two, members=["x", "y", "z"])) == []
    assert missing(whole, surface(three, members=["x", "y"])) == [
        "arguments of m.f: ['a', 'b='], not ['a']"
    ]
    assert missing(whole, surface(four, members=["x", "y"]))
    assert missing(whole, surface(one, value="2", members=["y"])) == [
        "value of m.V: 1, not 2",
        "attribute m.C.x",
    ]
    assert missing(whole, {}) == ["module m"]
    assert missing(whole, {"m": {}}) == ["function m.f", "value m.V", "class m.C"]
