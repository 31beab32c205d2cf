"""Decoded values equal the server's own SELECT (scripts/compare_values runs it for longer)."""

from collections.abc import Callable

from tests.integration.values_comparison import ValuesComparison
from tests.servers.server import Server

ROWS = 400
SEED = 20261120


def test_every_value_equals_the_servers_own(
    any_server: Server, new_database: Callable[[Server], str]
) -> None:
    comparison = ValuesComparison(any_server, new_database(any_server), SEED)
    try:
        tally = comparison.run(ROWS)
    finally:
        comparison.close()
    assert tally.differences == []
    assert tally.rows > ROWS
    assert tally.values > 5 * ROWS
