"""A message is a line that names its route, whatever is in it."""

import asyncio
import json
import logging

import pytest

from replica_client.service import process as logs


@pytest.fixture
def logger():
    found = logging.getLogger(logs.LOGGER)
    before = found.handlers[:], found.level, found.propagate
    yield found
    found.handlers[:], found.level, found.propagate = before[0], before[1], before[2]


@pytest.mark.parametrize("layout", ["text", "json"])
def test_messages_name_their_route_and_are_one_line(layout, logger, capsys):
    logs.set_up("info", layout)

    async def route(name: str) -> None:
        logs.ROUTE.set(name)
        logging.getLogger(logs.LOGGER).warning("lost: %s", "a\nb\x1b[31m")
        logging.getLogger("replica_client.service").warning("%s: copying %s", name, "t")

    async def run() -> None:
        await asyncio.gather(
            asyncio.ensure_future(route("s.one")), asyncio.ensure_future(route("s.two"))
        )
        logger.warning("of nobody's route")

    asyncio.run(run())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    if layout == "json":
        texts = [json.loads(line)["message"] for line in lines]
        lost = "lost: a\nb\x1b[31m"
        ends = [(one.get("source"), one.get("sink")) for one in map(json.loads, lines)]
        assert sorted(ends, key=str) == [
            ("s", "one"), ("s", "one"), ("s", "two"), ("s", "two"), (None, None)
        ]  # fmt: skip
    else:
        texts = [line.split("WARNING ", 1)[1] for line in lines]
        lost = "lost: a\\nb\\x1b[31m"
    assert sorted(texts) == sorted(
        [
            f"s.one: {lost}", "s.one: copying t", f"s.two: {lost}", "s.two: copying t",
            "of nobody's route",
        ]
    )  # fmt: skip
