"""Mutated documents and diffs: one error type, one verdict, bounded results.

``REPLICA_CLIENT_FUZZ_ROUNDS`` makes it longer.
"""

import json
import os
import random
from pathlib import Path

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_binary import JsonDocument, encode_json
from replica_client.protocol.binlog.values.json_diff import apply_diffs, decode_diffs

ROUNDS = int(os.environ.get("REPLICA_CLIENT_FUZZ_ROUNDS", "4000"))
SEED = int(os.environ.get("REPLICA_CLIENT_FUZZ_SEED", "20"))
MOST_TEXT_PER_BYTE = 40
EDGES = (0, 1, 2, 3, 4, 12, 15, 0x7F, 0x80, 0xF6, 0xFF)

GOLDEN = json.loads(
    (Path(__file__).parents[4] / "golden" / "json_mysql.json").read_text(encoding="utf-8")
)
DOCUMENTS = [bytes.fromhex(case["document"]) for case in GOLDEN["documents"]]
DOCUMENTS += [
    encode_json({"a": [70000, -1, "x" * 65600], "b": [[], {}, [[[{"c": None}]]]]}),
    encode_json([list(range(40)), {str(i): i / 3 for i in range(40)}]),
]
UPDATES = [
    (bytes.fromhex(case["before"]), bytes.fromhex(case["diffs"])) for case in GOLDEN["updates"]
]


def mutated(chance: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    head = min(len(out), chance.choice((8, 30, 1 << 20)))
    for _ in range(chance.choice((1, 1, 2, 4, 9))):
        at = chance.randrange(head)
        kind = chance.randrange(8)
        if kind == 0:
            del out[at:]
        elif kind == 1:
            out[at:at] = chance.randbytes(chance.randrange(1, 5))
        elif kind == 2:
            out[at : at + 2] = chance.randrange(len(out) + 1).to_bytes(4, "little")[:2]
        elif kind == 3:
            source = chance.randrange(len(out))
            out[at : at + 4] = out[source : source + 4]
        else:
            out[at : at + 1] = bytes(
                (chance.choice((chance.choice(EDGES), chance.randrange(256))),)
            )
        if not out:
            out += b"\2"
        head = min(head, len(out))
    return bytes(out)


def read(document: JsonDocument) -> str | None:
    """Its text, None when it is malformed; the three ways of reading must agree on that."""
    verdicts = []
    for way in (lambda: document.text, lambda: document.value, document.compacted):
        try:
            verdicts.append(way())
        except ColumnDecodeError:
            verdicts.append(ColumnDecodeError)
    refused = [verdict is ColumnDecodeError for verdict in verdicts]
    assert all(refused) or not any(refused), (document.data.hex(), verdicts)
    return None if refused[0] else document.text


def test_documents():
    chance = random.Random(SEED)
    read_count = 0
    for _ in range(ROUNDS):
        data = mutated(chance, chance.choice(DOCUMENTS))
        text = read(JsonDocument(data))
        if text is not None:
            read_count += 1
            assert len(text) <= MOST_TEXT_PER_BYTE * (len(data) + 4), data.hex()
            assert JsonDocument(data).compacted().text is not None
    assert 0 < read_count < ROUNDS


def test_diffs():
    chance = random.Random(SEED)
    applied = 0
    for _ in range(ROUNDS // 4):
        before, diffs = chance.choice(UPDATES)
        if chance.random() < 0.3:
            before = mutated(chance, before)
        try:
            after = apply_diffs(JsonDocument(before), decode_diffs(mutated(chance, diffs)))
        except ColumnDecodeError:
            continue
        applied += 1
        assert read(after) is not None
    assert applied
