"""The format ``flat``: rows as Debezium's ExtractNewRecordState writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from replica_client import open_binlog
from replica_client.errors import ConfigError, PoisonChangeError
from replica_client.sinks.formats.line_format import make_message_format
from replica_client.sinks.formats.message import KeyChoice, Message
from tests.unit.sinks.formats.cases import LINES, SERVERS


def messages(
    name: str,
    options: dict[str, Any],
    keys: KeyChoice | None,
    server: str,
    tables: list[str] | None = None,
) -> Iterator[Message]:
    made = make_message_format(name, options, keys)
    for transaction in open_binlog(LINES / f"{server}.binlog", tables=tables).transactions():
        yield from made.messages(transaction)


@pytest.mark.parametrize("server", SERVERS)
def test_a_row_is_that_of_the_envelope_with_what_was_asked_for(server: str) -> None:
    options = {"add_fields": ["op", "table", "source.ts_ms", "transaction.id", "total_order"]}
    keys = KeyChoice()
    flat = list(messages("flat", {**options, "provide_transaction_metadata": True}, keys, server))
    full = list(messages("debezium", {"provide_transaction_metadata": True}, keys, server))
    assert len(flat) == len(full)
    kinds = set()
    for one, other in zip(flat, full, strict=True):
        envelope = json.loads(other.value)
        assert (one.key, one.gone, one.headers, one.rows) == (
            other.key,
            other.gone,
            other.headers,
            other.rows,
        )
        kinds.add(envelope.get("op"))
        if envelope.get("op") in (None, "t"):
            assert one.value.partition('"ts_')[0] == other.value.partition('"ts_')[0]
            assert one.kind in ("schema", "transaction")
            continue
        row = envelope["before" if envelope["op"] == "d" else "after"]
        assert json.loads(one.value) == {
            **row,
            "__deleted": "true" if envelope["op"] == "d" else "false",
            "__op": envelope["op"],
            "__table": envelope["source"]["table"],
            "__source_ts_ms": envelope["source"]["ts_ms"],
            "__transaction_id": envelope["transaction"]["id"],
            "__total_order": envelope["transaction"]["total_order"],
        }
    assert kinds >= {"c", "u", "d"}


def test_deletes_are_what_was_chosen() -> None:
    whole = [one for one in messages("flat", {}, KeyChoice(), "mysql-9.7") if one.kind == "row"]
    deletes = [one for one in whole if '"__deleted":"true"' in one.value]
    assert deletes
    dropped = list(messages("flat", {"delete_handling": "drop"}, KeyChoice(), "mysql-9.7"))
    assert len([one for one in dropped if one.kind == "row"]) == len(whole) - len(deletes)
    assert not any("__deleted" in one.value for one in dropped if one.kind == "row")
    alone = {"delete_handling": "tombstone"}
    with pytest.raises(PoisonChangeError, match="has no tombstone"):  # of a table without a key
        list(messages("flat", alone, KeyChoice(), "mysql-9.7"))
    keyed = [one.gone for one in deletes if one.table == "kinds"]
    found = messages("flat", alone, KeyChoice(), "mysql-9.7", tables=["*.kinds"])
    assert [one.gone for one in found if not one.value] == keyed


def test_a_schema_has_the_fields_of_the_value() -> None:
    options = {"schemas_enable": True, "add_fields": ["op", "source.pos"]}
    for one in messages("flat", options, KeyChoice(), "mysql-9.7"):
        if one.kind == "row":
            found = json.loads(one.value)
            names = [field["field"] for field in found["schema"]["fields"]]
            assert names == list(found["payload"])
            assert names[-3:] == ["__deleted", "__op", "__source_pos"]
            assert found["schema"]["name"].endswith(".Value")
            assert one.key is None or json.loads(one.key).keys() == {"schema", "payload"}


@pytest.mark.parametrize(
    "options",
    [{"add_fields": ["after.id"]}, {"add_fields": ["op."]}, {"delete_handling": "tombstone"}],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"add_fields|tombstone"):
        make_message_format("flat", options)
