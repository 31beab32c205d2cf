import pytest

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_diff import parse_path


@pytest.mark.parametrize(
    ("text", "legs"),
    [
        ("$", ()),
        ("$.a", ("a",)),
        ("$.a.b[3]", ("a", "b", 3)),
        ("$[0][last][last-2]", (0, -1, -3)),
        ("$ . a [ last - 1 ] ", ("a", -2)),
        ('$."a.b[0] \\"q\\" \\\\ \\u00e4\\n"', ('a.b[0] "q" \\ ä\n',)),
        ('$.""', ("",)),
        ("$.größe.$x._y", ("größe", "$x", "_y")),
        ("$.\\u0061b", ("ab",)),
        ('$."\U0001f600"[4294967295]', ("\U0001f600", 4294967295)),
    ],
)
def test_parsed(text, legs):
    assert parse_path(text) == legs


@pytest.mark.parametrize(
    "text",
    ["", "a", "a.b", "$.", "$a", "$[", "$[]", "$[-1]", "$[*]", "$.*", "$**.a", "$[1 to 2]", "$[x]",
     '$."a', '$."a\\"', '$."\\x"', '$."\\ud800"', "$[99999999999]", "$.a]", "$[last+1]",
     "$[lastly]"],
)  # fmt: skip
def test_refused(text):
    with pytest.raises(ColumnDecodeError, match="JSON path"):
        parse_path(text)
