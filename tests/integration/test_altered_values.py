"""What an ALTER TABLE does to values that are there, on real servers: followed exactly, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from tests.integration.altered_values import STRICT, prove
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("sql_mode", ["", STRICT])
def test_values_are_those_of_the_source_or_asked_for_again(
    any_server: LocalServer, new_database: Any, tmp_path: Path, sql_mode: str
) -> None:
    database = new_database(any_server)
    proof = prove(any_server, database, tmp_path, sql_mode=sql_mode, count=12, seed=len(sql_mode))
    assert not proof.wrong
    assert proof.mirrors["equal"] and proof.mirrors["refused"], proof
