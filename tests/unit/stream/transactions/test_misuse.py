"""connect() without asyncio and follow() with it: the error says what to write."""

import ast
import re

import pytest

import replica_client as rc

URL = "mysql://repl@127.0.0.1:1/"


def with_statement() -> None:
    with rc.connect(URL):
        pass


def for_statement() -> None:
    for _ in rc.connect(URL):
        pass


async def async_for_statement() -> None:
    async for _ in rc.connect(URL):
        pass


async def await_expression() -> None:
    await rc.connect(URL)  # type: ignore[misc]


async def with_in_a_coroutine() -> None:
    with rc.connect(URL):
        pass


async def async_with_follow() -> None:
    async with rc.follow(URL):
        pass


async def async_for_follow() -> None:
    async for _ in rc.follow(URL):
        pass


async def await_follow() -> None:
    await rc.follow(URL)  # type: ignore[misc]


def _assert_helpful(error: BaseException) -> None:
    stated = re.findall("`([^`]*)`", str(error))
    assert len(stated) >= 3, "the statement, and two ways to write it"
    for statement in stated[1:]:
        code = statement.replace("…", "url")
        ast.parse(f"async def f():\n  {code}\n    pass" if code.endswith(":") else code)


@pytest.mark.parametrize("misuse", [with_statement, for_statement])
def test_plain_code_is_reported_what_to_write(misuse) -> None:
    with pytest.raises(TypeError, match=r"async with rc\.connect.*rc\.follow") as caught:
        misuse()
    _assert_helpful(caught.value)


@pytest.mark.parametrize("misuse", [async_for_statement, await_expression, with_in_a_coroutine])
async def test_coroutines_are_reported_what_to_write(misuse) -> None:
    with pytest.raises(TypeError, match=r"async with rc\.connect") as caught:
        await misuse()
    _assert_helpful(caught.value)


@pytest.mark.parametrize("misuse", [async_with_follow, async_for_follow, await_follow])
async def test_follow_in_asyncio(misuse) -> None:
    with pytest.raises(TypeError, match=r"with rc\.follow.*rc\.connect") as caught:
        await misuse()
    _assert_helpful(caught.value)


async def test_iterators_of_a_stream_that_is_not_open() -> None:
    stream = rc.connect(URL)
    with pytest.raises(RuntimeError, match="async with"):
        async for _ in stream.changes():
            pass
