"""Seconds of scripts/proofs/soak, with kills and cut connections among them."""

from __future__ import annotations

import threading
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.integration.soak_plot import svg
from tests.integration.soak_proof import SERVER_OPTIONS, Pace, Sample, Soak, Soaked


@pytest.mark.timeout(180)
def test_every_row_comes_through_cuts_and_kills(fresh_server, tmp_path: Path) -> None:
    server = fresh_server("mysql-9.7", SERVER_OPTIONS)
    pace = Pace(rate=300, ddl=0.3, rotation=2.0, cut=2.5, kill=1.5, sample=0.5)
    found = Soak(server, tmp_path, pace, bound=30.0, service=False).run(6 / 3600, threading.Event())
    assert found.rows > 300
    assert all(found.counts.values()), found.counts
    ElementTree.fromstring(svg(found, "a & b"))


def test_the_slope_is_that_behind_the_first_quarter() -> None:
    found = Soaked(hours=4.0)
    for step in range(41):
        hours = step / 10
        memory = 100 + 50 * hours if hours < 1 else 150 + 0.25 * hours
        found.samples.append(Sample(hours, "loop", memory, 8, (1, 2, 3), 500, 1.0, step))
    assert found.slope("loop") == pytest.approx(0.25)
    assert "+0.25 MiB an hour" in str(found)
