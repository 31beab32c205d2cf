"""Large rows and transactions; scripts/proofs/sizes runs them at full size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source.sizes import MIB, follow_alone


async def test_generated_file(tmp_path: Path) -> None:
    report = await follow_alone(tmp_path, 100_000, 2500)
    assert report.parts > 2
    assert report.memory < 200  # of 250: two parts of 64 and what is in flight


@pytest.mark.timeout(300)
async def test_positions_beyond_four_gib(tmp_path: Path) -> None:
    report = await follow_alone(tmp_path, 15 * MIB, 280)
    assert report.file_size > 1 << 32
    assert report.memory < 300


@pytest.mark.timeout(120)
async def test_row_of_two_hundred_megabytes(tmp_path: Path) -> None:
    report = await follow_alone(tmp_path, 200 * 1000 * 1000, 1)
    assert report.rows == 2
    # Of the queue, the event, its row image and the value there are two at a time.
    assert report.memory < 2.2 * 200e6 / MIB
