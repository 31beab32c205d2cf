"""Quick dataclasses behave as those of the standard library do: each case is run with both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.codec.quick_dataclass import dataclass, quick_dataclass
from replica_client.protocol.position import Position
from replica_client.schema.ddl.steps import CreateTable

T = TypeVar("T")
Decorate = Callable[..., Any]
NAN = float("nan")


def family(decorate: Decorate) -> SimpleNamespace:
    """One class of each kind, made by a decorator."""

    @decorate(frozen=True, slots=True)
    class Row:
        a: int
        b: str = "x"
        seen: tuple[int, ...] = ()
        kind: ClassVar[str] = "row"

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError(f"a is {self.a}")

    @decorate(frozen=True, slots=True)
    class Listed:
        values: list[object] = field(default_factory=list)
        shown: int = field(default=1, repr=False)
        alike: int = field(default=1, compare=False)
        keyed: int = field(default=1, hash=False)

    @decorate(slots=True)
    class Counted:
        count: int = 0
        names: dict[str, int] = field(default_factory=dict)

    @decorate(frozen=True, slots=True)
    class Nothing:
        """Without fields."""

    @decorate(frozen=True, slots=True)
    class Single(Generic[T]):
        value: T

    @decorate(frozen=True, slots=True)
    class Spoken:
        value: int

        def __repr__(self) -> str:
            return "spoken"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    @decorate(frozen=True, slots=True)
    class Alike:
        value: int

        def __eq__(self, other: object) -> bool:
            return True

    @decorate(frozen=True, slots=True, weakref_slot=True)
    class Weak:
        value: int

    @decorate(slots=True)
    class Computed:
        value: int
        double: int = field(init=False)
        seen: list[int] = field(init=False, default_factory=list)
        kind: str = field(init=False, default="c", repr=False)
        last: int = 3

        def __post_init__(self) -> None:
            self.double = 2 * self.value

    @decorate(slots=True)
    class Base:
        first: int

    @decorate(slots=True)
    class Derived(Base):
        second: int = 2

    made = (Row, Listed, Counted, Nothing, Single, Spoken, Alike, Weak, Computed, Base, Derived)
    return SimpleNamespace(**{cls.__name__: cls for cls in made})


QUICK, STANDARD = family(dataclass), family(dataclasses.dataclass)

CASES: dict[str, Callable[[SimpleNamespace], Any]] = {
    "defaults": lambda of: of.Row(1),
    "positions": lambda of: of.Row(1, "y", (2,)),
    "names": lambda of: of.Row(b="z", a=3),
    "refused by itself": lambda of: of.Row(-1),
    "missing": lambda of: of.Row(),
    "too many": lambda of: of.Row(1, 2, 3, 4),
    "twice": lambda of: of.Row(1, a=1),
    "unknown": lambda of: of.Row(1, other=1),
    "class variable": lambda of: of.Row(1).kind,
    "assigned": lambda of: setattr(of.Row(1), "a", 2),
    "deleted": lambda of: delattr(of.Row(1), "a"),
    "replaced": lambda of: replace(of.Row(1), b="y"),
    "as a dict": lambda of: dataclasses.asdict(of.Listed([of.Row(1)])),
    "as a tuple": lambda of: dataclasses.astuple(of.Row(1)),
    "matched": lambda of: of.Row.__match_args__,
    "slots": lambda of: of.Row.__slots__,
    "no dict": lambda of: vars(of.Counted()),
    "equal": lambda of: (of.Row(1) == of.Row(1), of.Row(1) == of.Row(2), of.Row(1) == 1),
    "not of the class": lambda of: of.Row(1).__eq__(of.Single(1)),
    "hashes": lambda of: (hash(of.Row(1)), hash(of.Nothing()), hash(of.Single(5))),
    "no hash": lambda of: hash(of.Counted()),
    "no hash of a list": lambda of: hash(of.Listed()),
    "of options": lambda of: (of.Listed([], 2) == of.Listed([], 1), of.Listed([], 1, 2) == of.Listed([], 1, 1)),
    "what is hashed": lambda of: (hash(of.Listed((), 1, 1, 5)) == hash(of.Listed((), 1, 2, 6))),  # type: ignore[arg-type]
    "shown": lambda of: of.Listed([1], 2),
    "a list of its own": lambda of: of.Listed().values is of.Listed().values,
    "changed": lambda of: changed(of.Counted()),
    "equal, not frozen": lambda of: of.Counted(1) == of.Counted(1),
    "nothing": lambda of: (of.Nothing(), of.Nothing() == of.Nothing()),
    "not a number": lambda of: of.Single(NAN) == of.Single(NAN),
    "own methods": lambda of: (repr(of.Spoken(1)), hash(of.Spoken(1)), of.Spoken(1) == of.Spoken(2)),
    "own equality alone": lambda of: (of.Alike(1) == of.Alike(2), hash(of.Alike(1))),
    "inside itself": lambda of: (one := of.Counted(), one.names.update(me=one), repr(one))[2],
    "weak references": lambda of: hasattr(of.Weak(1), "__weakref__"),
    "no arguments": lambda of: (of.Computed(2, 4), of.Computed(1).kind, of.Computed.__init__.__annotations__),
    "no argument": lambda of: of.Computed(1, 2, 3),
    "derived": lambda of: (of.Derived(1), of.Derived(1, 3) == of.Derived(1, 3)),
    "deep copy": lambda of: copy.deepcopy(of.Listed([[1]])),
    "copy": lambda of: copy.copy(of.Row(1)),
    "signature": lambda of: str(inspect.signature(of.Row)).replace("QuickRow", "Row"),
    "is frozen": lambda of: [c.__dataclass_params__.frozen for c in (of.Row, of.Counted)],
    "fields": lambda of: [[(f.name, f.type, f.default) for f in fields(c)] for c in (of.Row, of.Derived)],
    "doc": lambda of: of.Nothing.__doc__,
    "init": lambda of: (of.Row.__init__.__qualname__, of.Row.__init__.__annotations__),
}  # fmt: skip


def changed(counted: Any) -> Any:
    counted.count = 3
    return counted


def outcome(of: SimpleNamespace, case: Callable[[SimpleNamespace], Any]) -> str:
    try:
        return repr(case(of))
    except (TypeError, ValueError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", CASES)
def test_it_does_what_the_standard_one_does(name):
    assert outcome(QUICK, CASES[name]) == outcome(STANDARD, CASES[name])


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_objects_of_frozen_classes_are_pickled(protocol):
    position = Position("binlog.000001", 4)
    assert pickle.loads(pickle.dumps(position, protocol)) == position


def test_a_field_that_is_only_given_by_its_name_is_refused():
    class Other:
        value: int = field(default=1, kw_only=True)

    with pytest.raises(TypeError, match="Other.value is only given by its name"):
        quick_dataclass(Other)


def test_a_frozen_class_may_be_derived_from_by_others():
    @dataclasses.dataclass(frozen=True)
    class Mine(Position):
        name: str = "mine"

    mine = Mine("binlog.000001", 4, name="other")
    assert (mine.file, mine.offset, mine.name) == ("binlog.000001", 4, "other")
    with pytest.raises(FrozenInstanceError):
        mine.offset = 5  # type: ignore[misc]


@pytest.mark.parametrize("cls", [BinlogEvent, CreateTable, Position])
def test_classes_of_which_many_are_made_store_through_their_slots(cls):
    assert "_set_" in " ".join(cls.__init__.__code__.co_names)
    assert cls.__module__ in sys.modules
