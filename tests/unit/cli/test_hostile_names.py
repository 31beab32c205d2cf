"""Names and values that steer a terminal: every command on a terminal and in a pipe."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.printable import escaped_json, escaped_json_lines
from tests.unit.cli.conftest import DATA, Result

pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

COLUMN_SIZE = 5  # bytes: as many as "email" has, whose place a name takes
NAMES = {
    "erase": "\x1b[2Jx",
    "c1": "\x9b1mx",
    "title": "\x1b]0;x",
    "c1-string": "\x90a\x9c",
    "override": "\u202exy",
    "isolate": "\u2066xy",
    "mark": "\u061cabc",
    "line": "\u2028ab",
    "delete": "ab\x7f\x07c",
    "backspace": "a\b\b\rb",
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "events": ("events", "{file}"),
    "events-json": ("events", "{file}", "--json"),
    "changes": ("changes", "{file}"),
    "changes-json": ("changes", "{file}", "--json"),
    "changes-limit": ("changes", "{file}", "--json", "--limit", "3"),
    "changes-csv": ("changes", "{file}", "--csv", "--tables", "{pattern}"),
    "check": ("check", "{file}"),
    "annotate": ("annotate", "{file}", "--count", "60"),
    "schema": ("schema", "show", "{file}"),
    "schema-export": ("schema", "export", "{file}"),
    "find": ("find", "{file}", "--table", "{pattern}"),
    "find-json": ("find", "{file}", "--table", "{pattern}", "--json"),
    "history": ("history", "{file}", "--table", "{pattern}", "--key", "1"),
    "history-json": ("history", "{file}", "--table", "{pattern}", "--key", "1", "--json"),
    "stats": ("stats", "{file}"),
    "stats-json": ("stats", "{file}", "--json"),
    "index": ("index", "{file}", "--json"),
    "undo": ("undo", "{file}", "--table", "{pattern}"),
    "redo": ("redo", "{file}", "--table", "{pattern}"),
    "as-of": ("as-of", "{file}", "--table", "{pattern}", "--at", "latest"),
    "sql": ("sql", "SELECT * FROM {sql}", "{file}"),
    "sql-json": ("sql", "SELECT * FROM {sql}", "{file}", "--json"),
    "sql-csv": ("sql", "SELECT * FROM {sql}", "{file}", "--csv"),
    "no-such-table": ("find", "{file}", "--table", "shop.{name}"),
    "no-such-file": ("changes", "{name}"),
}
OUR_COLOURS = re.compile(r"\x1b\[(?:3[1236]|[01])m")
Run = Callable[..., Result]


def hostile_copy(path: Path, name: str) -> Path:
    """Write the shop's binlog with a name in the place of a table's, a column's, a label's and a value's."""
    data, decoder, at = (DATA / "shop-bin.000001").read_bytes(), BinlogDecoder(), 4
    column = name.encode()
    assert len(column) == COLUMN_SIZE
    table, label, value = column + b"-customers", column[:4], column + b"ovelace"
    label = label if _is_utf8(label) else b"\x1b[1m"
    out = data[:4]
    while at < len(data):
        raw = data[at : at + int.from_bytes(data[at + 9 : at + 13], "little")]
        event: Any = decoder.decode(raw, at)
        at += len(raw)
        body = event.body
        if isinstance(body, QueryEvent):
            quoted = b"`" + table + b"`"
            query = body.query.replace(b"shop.customers", b"shop." + quoted)
            query = query.replace(b"email", b"`" + column + b"`").replace(b"plus", label)
            event = replace(event, body=replace(body, query=query))
        elif isinstance(body, TableMapEvent) and body.table == "customers":
            metadata = body.optional_metadata.replace(b"email", column).replace(b"plus", label)
            event = replace(
                event, body=replace(body, table=table.decode(), optional_metadata=metadata)
            )
        elif b"Ada Lovelace" in raw:
            changed = raw.replace(b"Ada Lovelace", value)
            event = decoder.decode(_with_crc(changed), at - len(raw))
        size = len(encode_event(event, decoder.format))
        header = replace(
            event.header,
            event_size=size,
            next_position=len(out) + size if event.header.next_position else 0,
        )
        out += encode_event(replace(event, header=header), decoder.format)
    path.write_bytes(out)
    return path


def _is_utf8(text: bytes) -> bool:
    return text.decode("utf-8", "ignore").encode() == text


def _with_crc(raw: bytes) -> bytes:
    import zlib

    return raw[:-4] + zlib.crc32(raw[:-4]).to_bytes(4, "little")


@pytest.mark.parametrize("name", list(NAMES))
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_no_command_lets_a_name_steer(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, terminal: bool
) -> None:
    file = hostile_copy(tmp_path / "binlog.000001", NAMES[name])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if terminal:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    table = f"{NAMES[name]}-customers"
    given = {
        "file": str(file),
        "name": NAMES[name],
        "pattern": f"shop.`{table}`",
        "sql": '"shop"."' + table + '"',
    }
    for key, words in COMMANDS.items():
        if words[0] == "sql" and find_spec("duckdb") is None:
            continue
        result = run(*(word.format(**given) for word in words))
        assert result.status == (0 if not key.startswith("no-such") else result.status), (
            key,
            result.err,
        )
        _check_text(result.err, key)
        is_json = "json" in key or key in ("index", "as-of", "schema-export")
        if terminal:
            _check_text(OUR_COLOURS.sub("", result.out), key)
        if is_json:
            _check_text(result.out, key)
            documents = [result.out] if key == "schema-export" else result.out.splitlines()
            parsed = json.dumps([json.loads(one) for one in documents], ensure_ascii=False)
            if key not in ("index", "schema-export", "changes-limit"):
                assert json.dumps(NAMES[name], ensure_ascii=False)[1:-1] in parsed, key


def _check_text(text: str, key: str) -> None:
    steering = set(
        re.findall(
            r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", text
        )
    )
    assert not steering, (key, steering)


def test_every_character_is_escaped_as_in_text() -> None:
    for number in (*range(0x20, 0x3000), 0xFEFF, 0x1F41F):
        text = json.dumps(f"a{chr(number)}b", ensure_ascii=False)
        assert escaped_json_lines(text.encode()) == escaped_json(text).encode()
        assert json.loads(escaped_json(text)) == f"a{chr(number)}b"
