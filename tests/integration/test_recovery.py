"""Point-in-time recovery with redo is what ``mysqlbinlog | mysql`` gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.recovery import prove
from tests.servers.local import LocalServer


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_redo_up_to_a_commit(
    server: Callable[[str], LocalServer], tmp_path: Path, name: str
) -> None:
    counts = prove(server(name), tmp_path, 7)
    assert not counts["differences"]
    assert counts["changes"]
