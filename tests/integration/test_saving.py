"""README's loop, killed and stopped (the short run of scripts/proofs/saving)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration import saving_proof as proof


@pytest.mark.timeout(180)
def test_what_was_acknowledged_before_the_bound_never_comes_again(
    fresh_server, tmp_path: Path
) -> None:
    server = fresh_server("mysql-9.7", proof.SERVER_OPTIONS)
    # The bound is that of a machine that does much else, not that of a save.
    found = proof.prove_kills(server, tmp_path, kills=9, seed=4, save_interval=0.05, bound=5.0)
    assert found.kills == 10
    assert found.last > 100


@pytest.mark.timeout(180)
def test_a_stop_during_saves_leaves_the_newest_position(fresh_server, tmp_path: Path) -> None:
    server = fresh_server("mysql-9.7", proof.SERVER_OPTIONS)
    lines, statuses = proof.prove_stops(server, tmp_path, stops=6, seed=5)
    assert lines > 50
    assert sum(statuses.values()) == 6
