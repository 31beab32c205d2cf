"""Patterns of tables."""

from __future__ import annotations

import pytest

from replica_client.errors import ConfigError
from replica_client.rows.selection import Selection, exact_pattern, split_patterns

# Pattern, database, table; whether it matches with letter case, and without.
CASES = [
    ("shop.*", "shop", "orders", True, True),
    ("shop.*", "shop2", "orders", False, False),
    ("sh?p.or*s", "shop", "orders", True, True),
    ("*.*", "a.b", "c", True, True),
    ("*.orders", "shop", "orders", True, True),
    ("Shop.Orders", "shop", "orders", False, True),
    ("shop.ÄRGER", "shop", "ärger", False, True),
    ("shop.ÄRGER", "SHOP", "Ärger", False, True),
    ("shop.Ⱥ", "shop", "ⱥ", False, False),
    # A dot in a name is no end of the database.
    ("a.*", "a.b", "c", False, False),
    ("a.*", "a", "b.c", True, True),
    ("`a.b`.c", "a.b", "c", True, True),
    ("`a.b`.c", "a", "b.c", False, False),
    ("a.b.c", "a", "b.c", True, True),
    ("`a`.`b`", "a", "b", True, True),
    ("`a``b`.*", "a`b", "t", True, True),
    ("`a,b`.`*`", "a,b", "*", True, True),
    ("`a,b`.`*`", "a,b", "x", False, False),
    # What has a meaning elsewhere has none here.
    ("a.[bc]", "a", "b", False, False),
    ("a.[bc]", "a", "[bc]", True, True),
    ("a.b+(c)|d", "a", "b+(c)|d", True, True),
    ("a.$", "a", "$", True, True),
    ("a.x\\", "a", "x\\", True, True),
    ("a.*", "a", "x\ny", True, True),
    ("a.?", "a", "🐟", True, True),
    ("a. b", "a", " b", True, True),
]


@pytest.mark.parametrize(("pattern", "database", "table", "with_case", "without"), CASES)
def test_patterns(pattern: str, database: str, table: str, with_case: bool, without: bool) -> None:
    selection = Selection([pattern])
    assert selection.wants(database, table) is with_case
    assert selection.casefolded().wants(database, table) is without
    assert Selection(exclude=[pattern]).wants(database, table) is not with_case
    columns = Selection(columns={pattern: ["x"]})
    assert (columns.columns_of(database, table) is not None) is with_case
    assert (columns.casefolded().columns_of(database, table) is not None) is without
    if with_case:
        assert selection.wants_database(database)


@pytest.mark.parametrize(
    "name",
    ["a", "a.b", "`", "``", "*", "?", "[a]", "a,b", "\\", "\n", " ", "Ä", "🐟", "a'b", 'a"b'],
)
def test_the_pattern_of_one_table(name: str) -> None:
    pattern = exact_pattern(name, name)
    assert split_patterns(f"{pattern}, x.y") == [pattern, "x.y"]
    selection = Selection(f"{pattern},x.y")
    assert selection.wants(name, name)
    assert selection.wants("x", "y")
    for other in (f"{name}x", f"x{name}", "x", f"{name}."):
        assert not selection.wants(other, name)
        assert not selection.wants(name, other)


@pytest.mark.parametrize("pattern", ["shop", "`shop.orders`", "", "*"])
def test_no_dot(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"has no dot"):
        Selection([pattern])


def test_an_open_backquote() -> None:
    with pytest.raises(ConfigError, match="backquote"):
        Selection(["`shop.orders"])


def test_databases() -> None:
    selection = Selection(["shop.*", "cdc.orders"], exclude=["shop_old.*", "cdc.x"])
    assert [
        name for name in ("shop", "cdc", "other", "shop_old") if selection.wants_database(name)
    ] == [
        "shop",
        "cdc",
    ]
    without = Selection(exclude=["mysql.*", "shop.x"])
    assert [name for name in ("shop", "mysql") if without.wants_database(name)] == ["shop"]


def test_patterns_that_matched_nothing() -> None:
    selection = Selection(["shop.*", "Shop.*", "cdc.orders"])
    assert selection.unmatched() == ["shop.*", "Shop.*", "cdc.orders"]
    selection.wants("shop", "a")
    assert selection.unmatched() == ["Shop.*", "cdc.orders"]
    selection.casefolded().wants("shop", "b")
    assert selection.unmatched() == ["cdc.orders"]
    assert Selection().unmatched() == []


@pytest.mark.parametrize(
    ("pattern", "like"),
    [
        ("shop.orders", ("shop", "orders")),
        ("shop.*", ("shop", "%")),
        ("s?p.o%d", ("s_p", "o|%d")),
        ("`a.b`.`c_*|`", ("a.b", "c|_*||")),
        ("`a``b`.*", ("a`b", "%")),
    ],
)
def test_patterns_for_the_servers_like(pattern: str, like: tuple[str, str]) -> None:
    assert Selection([pattern]).like_patterns() == [like]


def test_a_list_of_columns_is_for_every_table() -> None:
    wanted = Selection(columns=["id", "name"])
    assert wanted.columns_of("shop", "orders") == {"id", "name"}
    by_table = Selection(columns={"shop.*": ["id"]})
    assert by_table.columns_of("shop", "orders") == {"id"}
    assert by_table.columns_of("other", "orders") is None


def test_one_more_table() -> None:
    """With all of its columns, whatever else is wanted."""
    wanted = Selection(["shop.*"], ["shop.a*", "other.*"], {"*.*": ["id"]}).including(
        "other", "Also"
    )
    assert wanted.wants("other", "Also") and wanted.wants("shop", "b")
    assert not wanted.wants("other", "also") and not wanted.wants("shop", "a")
    assert wanted.columns_of("other", "Also") is None
    assert wanted.columns_of("shop", "b") == {"id"}
    assert wanted.wants_database("other") and not wanted.wants_whole_database("other")
    assert wanted.like_patterns() == [("shop", "%"), ("other", "Also")]
    assert wanted.casefolded().wants("OTHER", "aLSO")
    assert Selection(None, ["other.*"]).including("other", "t").wants("other", "t")
