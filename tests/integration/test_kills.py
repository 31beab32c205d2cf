"""A killed client loses nothing and repeats nothing that was acknowledged (the short run)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.kills import prove


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_changes_survive_sigkill(fresh_server, tmp_path: Path, name: str) -> None:
    server = fresh_server(name, ["binlog-row-metadata=FULL"])
    report = prove(server, tmp_path, database="killed", kills=5, seed=20)
    assert report.kills == 5
    assert report.resumed >= 3
    assert report.rows > 200
