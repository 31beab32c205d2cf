"""Statements of undo and redo for many rows."""

from __future__ import annotations

from replica_client.archive.row_checks import RowWrite, grouped, statement


def _write(key: int, value: str) -> RowWrite:
    where = f"`k` = {key}"
    return RowWrite("update", "`t`", ("`v`",), (value,), where, (), (), "", False, ("", "t"))


def test_a_null_is_no_value_of_a_case() -> None:
    # MySQL 5.6 would take the CASE for signed, and store 0.
    [group] = grouped([_write(1, str(2**64 - 1)), _write(2, "NULL")])
    assert statement(group) == (
        "UPDATE `t` SET `v` = CASE WHEN `k` = 1 THEN 18446744073709551615 END WHERE (`k` = 1) OR (`k` = 2)"
    )
    signed = [_write(1, str(2**64 - 1)), _write(2, "NULL"), _write(3, "-1")]
    assert list(map(len, grouped(signed))) == [2, 1]
