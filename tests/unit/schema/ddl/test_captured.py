"""Statements with the tables that real servers made of them (scripts/capture/ddl)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.catalog import Unverified
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory
from tests.unit.schema.tables import compare

CAPTURED = Path(__file__).parent / "captured"
SERVERS = ("mysql-9.7", "mysql-5.6", "mariadb-10.11", "mariadb-11.8")


def context_members(context: StatementContext) -> dict[str, Any]:
    """What of a context is not as by default."""
    found = {one.name: getattr(context, one.name) for one in fields(context)}
    return {
        name: value for name, value in found.items() if value != getattr(StatementContext(), name)
    }


def context_of(members: dict[str, Any]) -> StatementContext:
    """The context that :func:`context_members` gave."""
    flavor = ServerFlavor(members.pop("flavor", ServerFlavor.MYSQL))
    version = tuple(members.pop("version"))
    return StatementContext(flavor=flavor, version=version, **members)


def sessions(name: str) -> Iterator[Any]:
    """Each session's statements: text, context and the tables that changed."""
    for line in gzip.decompress((CAPTURED / f"{name}.jsonl.gz").read_bytes()).splitlines():
        yield json.loads(line)


@pytest.mark.parametrize("name", SERVERS)
def test_tables_are_what_the_server_made(name: str) -> None:
    wrong: list[str] = []
    compared = labels = unproven = 0
    for session in sessions(name):
        history = SchemaHistory()
        for at, (text, members, tables) in enumerate(session):
            history.run(text, context_of(members), "binlog.000001", 100 + at)
            for table, answer in tables.items():
                database, _, short = table.partition(".")
                state = history.table((database, short))
                unproven += isinstance(state, Unverified)
                differences, agreed = compare(state, answer, table)
                wrong += [f"{text[:300]}: {one}" for one in differences]
                compared += answer is not None
                labels += agreed
    assert wrong == []
    assert unproven == 0
    assert compared > 100
    assert labels > 1000
