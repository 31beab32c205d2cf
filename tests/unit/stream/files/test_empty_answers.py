"""A table that the files or the archive do not have is an error with the nearest name, not an empty answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import ConfigError
from replica_client.testing import sample_binlogs

NEAREST = r"no table shop\.ordres .*did you mean shop\.orders\?.*allow_empty=True"


@pytest.mark.parametrize("read", ["changes", "transactions", "batches", "threads"])
def test_of_files(read: str) -> None:
    def reader(*tables: str, **options: Any) -> Any:
        more = {"threads": 2} if read == "threads" else {}
        found = rc.open_binlog(sample_binlogs(), tables=tables, **options, **more)
        return getattr(found, "batches" if read == "threads" else read)()

    with pytest.raises(ConfigError, match=NEAREST):
        list(reader("shop.ordres"))
    with pytest.raises(ConfigError, match=NEAREST):
        list(reader("shop.products", "shop.ordres"))
    assert not [one for one in reader("shop.ordres", allow_empty=True) if read != "transactions"]
    assert list(reader("shop.orders"))
    assert next(iter(reader("shop.orders", "shop.ordres")))  # not the whole
    last = rc.open_binlog(sample_binlogs(), tables=["shop.orders"])
    assert list(last.changes())
    # A part of the files need not have the table.
    assert list(reader("shop.ordres", start=str(last.position))) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda archive, **more: archive.find("shop.ordres", **more).count(),
        lambda archive, **more: list(archive.find(["shop.orders", "shop.ordres"], key=10**9, **more)),
        lambda archive, **more: list(archive.find("shop.ordres", **more).batches()),
        lambda archive, **more: archive.history("shop.ordres", 1, **more),
    ],
)  # fmt: skip
def test_of_an_archive(ask: Callable[..., Any], tmp_path: Path) -> None:
    archive = rc.open_archive(sample_binlogs(), index_directory=tmp_path)
    with pytest.raises(ConfigError, match=NEAREST):
        ask(archive)
    assert not ask(archive, allow_empty=True)


def test_a_row_that_is_not_there_is_no_mistake(tmp_path: Path) -> None:
    archive = rc.open_archive(sample_binlogs(), index_directory=tmp_path)
    assert archive.find("shop.orders", key=10**9).count() == 0
    assert archive.history("shop.orders", 10**9) == []
    with pytest.raises(ConfigError, match="no such transaction in the archive"):
        archive.find(gtid="3e11fa47-71ca-11e1-9e33-c80aa9429562:5").count()
