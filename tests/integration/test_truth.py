"""Random histories in thirteen ways against the server's own text (the short run of scripts/proofs/truth)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

from tests.integration.truth_proof import Truth, prove
from tests.servers.local import LocalServer

QUICK = ("sync-binlog=0", "innodb-flush-log-at-trx-commit=0")


@pytest.mark.integration
@pytest.mark.timeout(400)
def test_every_moment_is_its_select(
    fresh_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    truth = Truth()
    prove(fresh_server("mariadb-11.8", QUICK), tmp_path, 3, 25, truth)
    assert truth.wrong == []
    assert truth.stops == []
    assert truth.silent == 0
    assert len(truth.values) == 13
    assert min(truth.values.values()) > 50
    assert truth.values.total() > 20_000


@pytest.mark.integration
@pytest.mark.timeout(60)
def test_a_wrong_value_and_a_missing_row_are_seen(
    fresh_server: Callable[..., LocalServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof is not blind: a reader that changes a value, or leaves a row out, is caught."""
    from tests.integration import truth_proof, truth_ways

    def lossy(written: truth_ways.Written) -> object:
        rows = [one for one in truth_ways.files(written) if one.table != "marker" and one.after]
        for change in truth_ways.files(written):
            if change != rows[len(rows) // 2]:
                yield change

    def untrue(written: truth_ways.Written) -> object:
        for change in truth_ways.files(written):
            after = change.after
            if after is not None and change.table != "marker":
                after = {
                    one: value if one == "id" else untrue_value(value)
                    for one, value in after.items()
                }
            yield truth_ways.Changed(change.table, change.before, after)

    def untrue_value(value: object) -> object:
        if isinstance(value, int):
            return int(value) ^ 1
        return value + value[:1] if isinstance(value, str | bytes) else value

    monkeypatch.setattr(truth_proof, "ORDERED", {"lossy": lossy, "untrue": untrue})
    truth = Truth()
    prove(fresh_server("mysql-9.7", QUICK), tmp_path, 3, 20, truth)
    assert truth.stops == []
    assert truth.silent > 0
    assert any("lossy" in text for text in truth.wrong)
    assert any("untrue" in text for text in truth.wrong)
    assert not any("files" in text for text in truth.wrong)
