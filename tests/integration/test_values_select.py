"""Decoded values equal the server's own SELECT (scripts/proofs/compare_values runs it for longer)."""

from collections.abc import Callable

import pytest

from tests.integration.values_comparison import ValuesComparison
from tests.integration.values_settings import own_server_options
from tests.integration.values_tally import Tally
from tests.servers.local import NAMES
from tests.servers.server import Server

pytestmark = pytest.mark.integration

ROWS = 800
SEED = 20261120
SETTINGS = {
    "image FULL",
    "image MINIMAL",
    "image NOBLOB",
    "checksum NONE",
    "checksum CRC32",
    "statement transaction",
    "statement rollback to savepoint",
    "statement update_join",
    "statement insert_on_duplicate",
}
MODERN = {"metadata FULL", "metadata MINIMAL", "compression ON", "compression OFF"}
MODERN |= {"generated column VIRTUAL", "generated column STORED", "invisible column"}
EVENTS = {
    "mysql-9.7": {
        "TRANSACTION_PAYLOAD_EVENT",
        "PARTIAL_UPDATE_ROWS_EVENT",
        "PARTIAL_UPDATE_ROWS_EVENT inside a payload",
        "JSON differences applied to the last document",
    },
    "mysql-5.6": {"WRITE_ROWS_EVENT", "UPDATE_ROWS_EVENT", "DELETE_ROWS_EVENT"},
    "mariadb-10.11": {"WRITE_ROWS_COMPRESSED_EVENT_V1", "UPDATE_ROWS_COMPRESSED_EVENT_V1"},
    "mariadb-11.8": {"WRITE_ROWS_COMPRESSED_EVENT_V1", "UPDATE_ROWS_COMPRESSED_EVENT_V1"},
}


@pytest.mark.parametrize("name", NAMES)
def test_every_value_equals_the_servers_own(name: str, fresh_server: Callable[..., Server]) -> None:
    server = fresh_server(name, own_server_options(name))
    database = server.create_database("values")
    comparison = ValuesComparison(server, database, SEED, own_server=True, most_columns=120)
    try:
        tally = comparison.run(ROWS)
    finally:
        comparison.close()
    assert not tally.differences, "\n".join([*tally.differences[:20], tally.first_fault[:5000]])
    wanted = SETTINGS if name == "mysql-5.6" else SETTINGS | MODERN
    assert wanted <= {setting for setting, count in tally.by_setting.items() if count}
    assert EVENTS[name] <= tally.by_event.keys()
    assert set(comparison.makers) <= tally.by_type.keys()
    assert tally.values > 50 * ROWS


def test_a_difference_is_found(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server("mariadb-11.8")
    comparison = ValuesComparison(server, server.create_database("values"), SEED)
    kind = comparison.makers["TINYINT"](comparison.draws)
    wrong = type(kind)(kind.type, kind.sql, kind.literal, "{} + 1", kind.text, unsigned=False)
    comparison.makers = {"TINYINT": lambda draws: wrong}
    try:
        tally: Tally = comparison.run(100)
    finally:
        comparison.close()
    assert tally.differences_by_type["TINYINT"] > 20
    assert tally.first_fault
