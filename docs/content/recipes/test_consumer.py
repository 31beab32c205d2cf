"""pytest: unit tests of a consumer, without a server.

    pytest test_consumer.py

`consume` stands for your program. The fixture `binlog_source` comes with the package.
"""

from collections.abc import Callable

import replica_client as rc
from replica_client.testing import BinlogSource, make_change

NEW = make_change("shop.orders", after={"id": 7, "state": "new"})
PAID = make_change(
    "shop.orders", before={"id": 7, "state": "new"}, after={"id": 7, "state": "paid"}
)


def to_ship(change: rc.Change) -> bool:
    return change.after is not None and change.after["state"] == "paid"


def consume(url: str) -> list[object]:
    with rc.follow(url, tables=["shop.*"], start="earliest", stop_at_end=True) as stream:
        return [change.key for change in stream.changes() if to_ship(change)]


def test_a_paid_order_is_shipped() -> None:
    assert not to_ship(NEW)
    assert to_ship(PAID)


def test_the_consumer_gets_it_from_a_source(binlog_source: Callable[..., BinlogSource]) -> None:
    assert consume(binlog_source([NEW, PAID]).url) == [(7,)]
