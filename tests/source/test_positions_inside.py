"""changes() acknowledged inside a large transaction goes on there, and not at its start."""

from __future__ import annotations

from pathlib import Path

import pytest

import replica_client as rc
from replica_client.rows.json_values import change_to_json
from replica_client.stream.transactions import inside
from replica_client.testing import BinlogSource
from tests.source.test_follow import follow, served

DATA = Path(rc.__file__).parent / "testing" / "data"
LARGE = 3
PARTS = [1 << 20, 1]


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "POSITIONED_AFTER", LARGE)


def assembly(part_size: int) -> rc.AssemblyOptions:
    return rc.AssemblyOptions(rc.Selection(), part_size=part_size)


WHOLE = [change_to_json(change) for change in rc.open_binlog(DATA).changes()]


def test_the_data_has_large_transactions() -> None:
    assert max(len(one.changes) for one in rc.open_binlog(DATA).transactions()) > LARGE


@pytest.mark.parametrize("part_size", PARTS)
def test_files(part_size: int) -> None:
    for count in range(1, len(WHOLE) + 1):
        reader = rc.open_binlog(DATA, assembly=assembly(part_size))
        given = [
            change_to_json(change)
            for _, change in zip(range(count), reader.changes(), strict=False)
        ]
        rest = rc.open_binlog(DATA, start=reader.position, assembly=assembly(part_size))
        again = [change_to_json(change) for change in rest.changes()]
        assert given + WHOLE[count:] == WHOLE
        assert again == WHOLE[len(WHOLE) - len(again) :]
        # The last one at least, and no more than a small transaction.
        assert 1 <= count - (len(WHOLE) - len(again)) <= LARGE, reader.position


@pytest.mark.parametrize("part_size", PARTS)
async def test_live(part_size: int, tmp_path: Path) -> None:
    """Each run takes a few changes more than a small transaction has, acknowledges, and is left."""
    store, done = tmp_path / "position", 0
    async with BinlogSource(DATA) as source:
        while done < len(WHOLE):
            kept: list[str] = []
            async with rc.connect(
                source.url,
                start="earliest",
                stop_at_end=True,
                position_store=store,
                assembly=assembly(part_size),
            ) as stream:
                async for change in stream.changes():
                    kept.append(change_to_json(change))
                    if len(kept) > LARGE + 1:
                        break
                assert kept == WHOLE[done : done + len(kept)]
                await stream.acknowledge(stream.position)
                if len(kept) <= LARGE + 1:
                    return
            # The next run begins with the last change, or with its small transaction.
            left = rc.open_binlog(DATA, start=stream.position, assembly=assembly(part_size))
            reached = len(WHOLE) - sum(1 for _ in left.changes())
            assert done < reached < done + len(kept)
            done = reached


def test_follow(tmp_path: Path) -> None:
    with served() as source, follow(source.url) as stream:
        for number, change in enumerate(stream.changes(), 1):
            left = rc.open_binlog(DATA, start=stream.position)
            again = [change_to_json(change) for change in left.changes()]
            assert again == WHOLE[len(WHOLE) - len(again) :]
            assert 1 <= number - (len(WHOLE) - len(again)) <= LARGE, change
