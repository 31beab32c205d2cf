"""Names of tables as names of files: inside their directory, short enough, and never two the same."""

import os
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
from hypothesis import given, strategies as st

from replica_client.errors import SchemaError
from replica_client.sinks.parquet_segments import table_directory
from replica_client.storage.durable import NAME_MAX, file_name, ignores_case, joined_name

HOSTILE = (
    *("..", ".", "...", ".hidden", "/", "//", "/etc/passwd", "../../x", "a/b", "a\\b", "\\..\\x"),
    *("%2E%2E", "%2e.", "%u2E.", "%", "%%", "%25", "%~", "%uu", "_open", "_OPEN", "_segments"),
    *("_schema_changes", "_delta_log", "_Delta_Log", "_temporary", "parquet.checkpoint.json"),
    *("con", "a b", " a", "a ", "a.", "a\n", "a\tb", "a\x7f", "é", "e\u0301", "ｅ", "İ", "ß", "K"),
    *(
        "😀" * 64,
        "é" * 64,
        "." * 64,
        "/" * 64,
        "A" * 255,
        "a" * 256,
        "a" * 255 + "b",
        "~",
        "`",
        "'",
    ),
    *('"', "$x", "a;b", "a,b", "a=b", "x=1", "*", "?", "<", "|", "\u202e", "\ufeff", "\x01"),
)
name_texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1),
    st.text(st.sampled_from("%u~.2E5_aA/\\ é"), min_size=1, max_size=12),
)
WAYS = (
    {},
    {"firm": True},
    {"ignores_case": True},
    {"firm": True, "ignores_case": True},
    {"plain": " ,;=+@()[]{}!$&'^~"},
)


def check(made: str) -> None:
    assert made not in (".", "..")
    assert not made.startswith(".")
    assert not {"/", "\\", "\0", "\n"} & set(made)
    assert 0 < len(os.fsencode(made)) <= NAME_MAX
    assert made.isascii()


@pytest.mark.parametrize("way", WAYS)
@given(first=name_texts, second=name_texts)
def test_names_are_safe_and_distinct(way, first, second):
    made = [file_name(name, **way) for name in (first, second)]
    for one in made:
        check(one)
    if way.get("ignores_case"):
        made = [one.lower() for one in made]
    assert (made[0] == made[1]) == (first == second)


@pytest.mark.parametrize("way", WAYS)
def test_hostile_names_make_distinct_directories(way, tmp_path):
    made = {file_name(name, **way) for name in HOSTILE}
    assert len(made) == len(HOSTILE)
    inside = tmp_path / "inside"
    inside.mkdir()
    for one in made:
        check(one)
        (inside / one).mkdir()
    assert {path.name for path in inside.iterdir()} == made
    assert list(tmp_path.iterdir()) == [inside]


@given(name=name_texts)
def test_a_firm_name_means_nothing_to_readers_of_urls(name):
    made = file_name(name, firm=True)
    assert unquote(made) == made
    assert urljoin("file:///a/b/", f"./{made}/x") == f"file:///a/b/{made}/x"


@pytest.mark.parametrize(
    "name", ["orders", "Orders", "order_items", "_tmp", "a-b", "T1", "a b", "$x", "a.b", "x.y.z"]
)
def test_ordinary_names_stay(name):
    assert file_name(name) == name
    assert file_name(name, firm=True) == name
    assert table_directory(name, name) == Path(name, name)


def test_parquet_keeps_the_paths_that_it_had():
    assert table_directory("Übung", "a,b(c)") == Path("%C3%9Cbung/a,b(c)")
    assert table_directory("a/b", "50%") == Path("a%2Fb/50%25")


@given(database=name_texts, table=name_texts)
def test_a_table_has_a_directory_of_its_own_inside(database, table):
    made = table_directory(database, table)
    assert len(made.parts) == 2
    assert made.parts[0] not in ("_open", "_segments", "_schema_changes")
    for part in made.parts:
        check(part)


@given(one=st.tuples(name_texts, name_texts), other=st.tuples(name_texts, name_texts))
def test_joined_names_are_distinct(one, other):
    assert (joined_name(*one) == joined_name(*other)) == (one == other)


def test_joined_names():
    assert joined_name("shop", "Orders") == "shop.Orders"
    assert joined_name("shop", "a.b") == "shop.a.b"
    assert joined_name("aa.b", "c") != joined_name("aa", "b.c")


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(SchemaError):
        file_name(name)


def test_asks_the_file_system(tmp_path):
    assert ignores_case(tmp_path) is (tmp_path.parent / tmp_path.name.swapcase()).exists()
    assert list(tmp_path.iterdir()) == []
