"""Conditions in SQL, as far as a server evaluates them like this package.

A condition of :mod:`replica_client.rows.where` compares values exactly; a server compares by
collations, sql_mode and its own conversions. For numbers both agree. So the tests of numbers go to
the server, which then sends fewer rows, and the rows that arrive are tested again. A test that
cannot go to the server is left out where that only lets more rows through.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from replica_client.rows.where import And, Comparison, Condition, IsNull, Not, OneOf, Or, Value
from replica_client.schema.quoting import mysql_name, mysql_value

NUMBERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "decimal"))
"""Kinds of columns whose comparison with a number is the same everywhere."""
_MAX_DIGITS: Final = 60
"""Maximum digits of a literal: servers have exact numbers of 65 digits."""


def exact_sql(condition: Condition, columns: Mapping[str, str]) -> str | None:
    """Return SQL that is true for every row that meets the condition; None where there is none.

    Args:
        condition: the condition on rows.
        columns: number columns: the source's name by the condition's.
    """
    if isinstance(condition, And):
        parts = [exact_sql(part, columns) for part in condition.parts]
        return " AND ".join(f"({part})" for part in parts if part is not None) or None
    if isinstance(condition, Or):
        parts = [exact_sql(part, columns) for part in condition.parts]
        given = [part for part in parts if part is not None]
        return " OR ".join(f"({part})" for part in given) if len(given) == len(parts) else None
    if isinstance(condition, Not):
        # A test may not be left out below NOT: that would reject rows that meet the condition.
        part = exact_sql(condition.part, columns) if _is_whole(condition.part, columns) else None
        return None if part is None else f"NOT ({part})"
    return _test(condition, columns) if _is_whole(condition, columns) else None


def _is_whole(condition: Condition, columns: Mapping[str, str]) -> bool:
    """Return whether the SQL expresses all of a condition."""
    if isinstance(condition, And | Or):
        return all(_is_whole(part, columns) for part in condition.parts)
    if isinstance(condition, Not):
        return _is_whole(condition.part, columns)
    if condition.column not in columns:
        return False
    if isinstance(condition, IsNull):
        return True
    values = condition.values if isinstance(condition, OneOf) else (condition.value,)
    return all(map(_is_exact, values))


def _is_exact(value: Value) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    return (
        len(f"{value:f}" if abs(Decimal(value).adjusted()) < _MAX_DIGITS else "?" * 99)
        < _MAX_DIGITS
    )


def _test(test: Comparison | OneOf | IsNull, columns: Mapping[str, str]) -> str:
    name = mysql_name(columns[test.column])
    if isinstance(test, IsNull):
        return f"{name} IS NULL"
    if isinstance(test, OneOf):
        return f"{name} IN ({', '.join(map(_number, test.values))})"
    return f"{name} {test.operator} {_number(test.value)}"


def _number(value: Value) -> str:
    assert isinstance(value, int | Decimal)
    return mysql_value(value)
