"""The blocks of the documentation that need Spark work as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import replica_client
from tests.unit.documents.pages import Block, blocks, furnish, run

pytestmark = pytest.mark.spark
BLOCKS = [block for block in blocks("python") if block.note == "spark"]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_runs(
    block: Block, spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    code = re.sub("(['\"])binlogs['\"]", rf"\1{tmp_path / 'binlogs'}\1", block.text)
    run(code, {"rc": replica_client, "spark": spark}, str(block))
