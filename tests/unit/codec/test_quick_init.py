"""Frozen dataclasses that are made quickly behave as the others do."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.events.gtid import GtidEvent
from replica_client.binlog.events.query import QueryEvent
from replica_client.binlog.header import EventHeader
from replica_client.codec.quick_init import quick_init
from replica_client.position.position import Position
from replica_client.position.tracker import TransactionBoundary
from replica_client.readers.transaction import Statement
from replica_client.schema.catalog import TableChange
from replica_client.schema.ddl.steps import CreateTable
from replica_client.schema.schema_change import SchemaChange


@dataclass(frozen=True, slots=True)
class Plain:
    a: int
    b: str = "x"
    seen: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError(f"a is {self.a}")


@quick_init
@dataclass(frozen=True, slots=True)
class Quick:
    a: int
    b: str = "x"
    seen: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError(f"a is {self.a}")


@pytest.mark.parametrize(
    ("positional", "named"),
    [((1,), {}), ((1, "y"), {"seen": (2,)}), ((), {"a": 3, "b": "z"}), ((-1,), {})]
    + [((), {}), ((1, 2, 3, 4), {}), ((1,), {"a": 1}), ((1,), {"other": 1})],
)
def test_it_takes_and_refuses_what_the_generated_one_does(positional, named):
    try:
        expected = Plain(*positional, **named)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)) as raised:
            Quick(*positional, **named)
        assert str(raised.value) == str(error).replace("Plain", "Quick")
        return
    made = Quick(*positional, **named)
    assert repr(made) == repr(expected).replace("Plain", "Quick")
    assert [getattr(made, one.name) for one in fields(made)] == [
        getattr(expected, one.name) for one in fields(expected)
    ]


def test_what_is_made_is_frozen_and_is_copied():
    made = Quick(1)
    with pytest.raises(FrozenInstanceError):
        made.a = 2  # type: ignore[misc]
    assert replace(made, b="y") == Quick(1, "y")
    assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(Quick(1))


def test_signatures_stay():
    assert str(inspect.signature(Quick)) == str(inspect.signature(Plain))


def test_a_class_with_other_fields_is_refused():
    @dataclass(frozen=True, slots=True)
    class Listed:
        values: list[int] = field(default_factory=list)

    with pytest.raises(TypeError, match="Listed.values is no plain argument"):
        quick_init(Listed)


@pytest.mark.parametrize(
    "cls",
    [
        BinlogEvent,
        CreateTable,
        EventHeader,
        GtidEvent,
        Position,
        QueryEvent,
        SchemaChange,
        Statement,
    ]
    + [TableChange, TransactionBoundary],
)
def test_classes_of_which_many_are_made(cls):
    assert cls.__init__.__wrapped__ is not cls.__init__
    names = list(inspect.signature(cls).parameters)
    assert names == [one.name for one in fields(cls)]
