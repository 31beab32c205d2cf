"""A row as a mapping and as a tuple; changes as dicts and as JSON."""

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import replica_client as rc
from replica_client.rows.json_values import change_to_json
from replica_client.rows.row import row_class

DATA = Path(rc.__file__).parent / "testing" / "data"
CHANGES = list(rc.open_binlog(DATA).changes())

VALUES = st.one_of(st.none(), st.integers(), st.text(), st.just(rc.ABSENT))


@given(st.dictionaries(st.text(min_size=1), VALUES, max_size=8))
def test_a_row_is_a_mapping_of_what_the_image_has(values: dict[str, object]) -> None:
    row = row_class(tuple(values))(values.values())
    there = {name: value for name, value in values.items() if value is not rc.ABSENT}
    assert dict(row) == {**row} == row.as_dict() == there
    assert dict(**row) == there
    assert (list(row.keys()), list(row.values()), list(row.items())) == (
        list(there),
        list(there.values()),
        list(there.items()),
    )
    for name, value in values.items():
        assert (name in row) is (value is not rc.ABSENT)
        assert row[name] is value
        assert row.get(name, "nothing") == there.get(name, "nothing")
    assert "\0 no column" not in row
    # And it is the tuple that it was.
    assert tuple(row) == tuple(values.values()) == row[:]
    assert len(row) == len(values)
    assert pickle.loads(pickle.dumps(row)).as_dict() == there


@pytest.mark.parametrize("asked", [1, None, rc.ABSENT, b"id", ("id",)])
def test_in_asks_for_names_and_says_so(asked: object) -> None:
    row = row_class(("id", "name"))((1, "id"))
    assert "name" in row
    assert (asked in row.values()) is (asked == 1)
    with pytest.raises(TypeError, match=r"value in row.values\(\)"):
        asked in row  # noqa: B015


def test_a_change_as_json_is_what_the_command_line_prints() -> None:
    assert CHANGES
    for change in CHANGES:
        assert change.to_json() == change_to_json(change)
        line, fields = json.loads(change.to_json()), change.as_dict()
        line.pop("json_null", None)
        assert list(line) == list(fields)
        for name, value in fields.items():
            if name in ("before", "after"):
                row = getattr(change, name)
                assert value == (None if row is None else row.as_dict())
                assert (line[name] is None) == (value is None)
                assert value is None or list(line[name]) == list(value)
            else:
                attribute = "offset" if name == "position" else name
                assert line[name] == value == getattr(change, attribute)


def test_plain_json_reaches_both_images() -> None:
    found = 0
    for change in CHANGES:
        for name, value in change.as_dict(plain_json=True).items():
            if name in ("before", "after") and value is not None:
                row = getattr(change, name)
                assert value == row.as_dict(plain_json=True)
                found += value != row.as_dict() or any(isinstance(v, rc.JsonDocument) for v in row)
                assert not any(isinstance(v, rc.JsonDocument) for v in value.values())
    assert found


class Printer:
    """As much of IPython's printer as ours use, on one line."""

    def __init__(self) -> None:
        self.said = ""

    def group(self, indent: int, opening: str, closing: str):
        from contextlib import contextmanager

        @contextmanager
        def grouped():
            self.said += opening
            yield
            self.said += closing

        return grouped()

    def text(self, text: str) -> None:
        self.said += text

    def breakable(self) -> None:
        self.said += " "

    def pretty(self, value: object) -> None:
        shown = getattr(value, "_repr_pretty_", None)
        if shown is None:
            self.said += repr(value)
        else:
            shown(self, False)


def test_ipython_shows_what_repr_says() -> None:
    for change in CHANGES:
        for value in (change, change.before, change.after):
            if value is not None:
                printer = Printer()
                printer.pretty(value)
                assert printer.said == repr(value)
    for transaction in rc.open_binlog(DATA).transactions():
        printer = Printer()
        printer.pretty(transaction)
        assert printer.said.startswith("Transaction(start=")
        printer = Printer()
        printer.pretty(transaction.changes)
        assert printer.said == repr(transaction.changes)
