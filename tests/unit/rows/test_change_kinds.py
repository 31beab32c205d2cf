"""The classes of the three kinds of change, for isinstance and match."""

from pathlib import Path

import replica_client as rc

DATA = Path(rc.__file__).parent / "testing" / "data"
BY_NAME = {"insert": rc.InsertChange, "update": rc.UpdateChange, "delete": rc.DeleteChange}


def test_each_change_is_of_its_kind_alone() -> None:
    changes = list(rc.open_binlog(sorted(DATA.glob("shop-bin.0*"))).changes())
    assert {change.kind for change in changes} == set(BY_NAME)
    for change in changes:
        assert isinstance(change, rc.AnyChange)
        for kind, type_ in BY_NAME.items():
            assert isinstance(change, type_) == (change.kind == kind)
        match change:
            case rc.InsertChange(before=before, after=after):
                assert before is None and isinstance(after, rc.Row)
            case rc.UpdateChange(before=before, after=after):
                assert isinstance(before, rc.Row) and isinstance(after, rc.Row)
            case rc.DeleteChange(before=before, after=after):
                assert isinstance(before, rc.Row) and after is None


def test_nothing_else_is_a_change() -> None:
    for other in (None, "insert", rc.Position("f", 4), DATA):
        assert not isinstance(other, rc.AnyChange)
