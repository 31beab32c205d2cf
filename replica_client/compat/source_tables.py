"""Definitions of tables as the source has them now, for programs that expect names the binlog does not have."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from replica_client.errors import ReplicaClientError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema import information_schema
from replica_client.schema.model import TableModel

_LOG = logging.getLogger("replica_client.compat")


def flavor_of(dbms: str | None) -> ServerFlavor:
    """Return the flavor of a server that is ``mysql`` or ``mariadb``."""
    return ServerFlavor.MARIADB if dbms == "mariadb" else ServerFlavor.MYSQL


def questions(name: tuple[str, str], dbms: str | None) -> tuple[tuple[str, Sequence[Any]], ...]:
    """Return the queries about a table for the source, as statements with arguments."""
    where = information_schema.where_table(name)
    return (
        information_schema.tables_query(where),
        information_schema.columns_query(flavor_of(dbms), where),
        information_schema.keys_query(where),
    )


def definition(
    name: tuple[str, str],
    answers: Sequence[list[tuple[Any, ...]]],
    dbms: str | None,
    version: tuple[int, int, int],
) -> TableModel | None:
    """Return the table's definition by the answers, or None where there is no such table."""
    try:
        found = information_schema.read_tables(
            answers[0], answers[1], answers[2], flavor_of(dbms), version
        )
    except ReplicaClientError as error:
        _LOG.warning("%s.%s: %s", *name, error)
        return None
    return found[0] if found else None
