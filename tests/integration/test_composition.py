"""Services that share sources and destinations stay right (a short run of scripts/proofs/composition)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the package psycopg is not installed")

from tests.integration.composition import Composition
from tests.integration.composition_destinations import Destinations
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


def test_random_operations_on_services_that_share_destinations(
    fresh_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    options = ["binlog-row-metadata=FULL"]
    sources = fresh_server("mysql-9.7", options), fresh_server("mariadb-11.8", options)
    target = fresh_server("mysql-9.7", ["skip-log-bin"])
    with contextlib.ExitStack() as stack:
        there = Destinations(stack, tmp_path, target)
        proof = Composition(sources, there, tmp_path, 7, print)
        with proof.running():
            for _ in range(5):
                proof.step()
            proof.compare()
    assert proof.compared
