"""The driver's private names that login.py uses are still there."""

import asyncio
import inspect

import aiomysql.connection
import pytest

from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.login import LoginConnection

OVERRIDDEN = ("_get_server_information", "_request_authentication", "_read_packet")
CALLED = ("_connect", "_read_ok_packet", "_ensure_alive", "_close_on_cancel", "write_packet")


@pytest.mark.parametrize("name", OVERRIDDEN + CALLED)
def test_method(name) -> None:
    assert callable(getattr(aiomysql.connection.Connection, name))


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_the_driver_calls_what_we_override(name) -> None:
    source = inspect.getsource(aiomysql.connection)
    assert f"self.{name}(" in source or f"connection.{name}(" in source


async def test_attributes() -> None:
    connection = LoginConnection(ConnectOptions(user="u"))
    for name in ("_reader", "_writer", "_result", "_close_reason", "_secure", "_encoding"):
        assert hasattr(connection, name)
    assert not connection._local_infile
    assert hasattr(asyncio.StreamReader(), "_buffer")
