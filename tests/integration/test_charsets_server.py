"""Character sets against live servers: what was captured from two holds on all."""

import contextlib
import random

import pytest

from replica_client.errors import EncodeError
from replica_client.protocol.codec.charsets import UndecodableTextError, decode_text, encode_text
from replica_client.protocol.constants.client_server import CHARSET_BY_COLLATION_ID, CHARSETS

pytestmark = pytest.mark.integration

ID_OF = {name: min(i for i, n in CHARSET_BY_COLLATION_ID.items() if n == name) for name in CHARSETS}


def modern(name):
    return {"utf8": "utf8mb3"}.get(name, name)


def test_collation_ids(any_server):
    rows = any_server.query("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS")
    known = {int(i): modern(name) for i, name in rows if i is not None and name is not None}
    with contextlib.suppress(Exception):  # MariaDB 10.10 and later list more ids here
        rows = any_server.query(
            "SELECT ID, CHARACTER_SET_NAME FROM"
            " information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL"
        )
        known.update((int(i), modern(name)) for i, name in rows)
    assert len(known) > 150
    assert {i: CHARSET_BY_COLLATION_ID.get(i) for i in known} == known


def sample(rng, name):
    """Sequences of a set, some of them invalid."""
    if name in ("utf16", "utf16le", "ucs2", "utf32", "utf8mb3", "utf8mb4"):
        for _ in range(1500):
            code = rng.choice(
                (rng.randrange(0x80), rng.randrange(0x10000), rng.randrange(0x110000))
            )
            with contextlib.suppress(EncodeError):
                yield encode_text(chr(code), ID_OF[name])
        return
    for _ in range(2000):
        yield rng.randbytes(rng.choice((1, 2, 2, 3, 4)))
    for _ in range(1500):
        yield bytes(rng.randrange(0x80, 0x100) for _ in range(rng.choice((1, 2, 2, 3, 4))))
    if name in ("ujis", "eucjpms"):
        for _ in range(1000):
            yield bytes((0x8F, rng.randrange(0xA0, 0x100), rng.randrange(0xA0, 0x100)))
    if name == "gb18030":
        for _ in range(2000):
            yield bytes((rng.randrange(0x81, 0xFF), rng.randrange(0x30, 0x3A),
                         rng.randrange(0x81, 0xFF), rng.randrange(0x30, 0x3A)))  # fmt: skip


def writes_back(shown, name, data):
    try:
        text = bytes.fromhex(shown).decode("utf-8", "surrogatepass")
        return encode_text(text, ID_OF[name]) == data
    except (EncodeError, UnicodeDecodeError):
        return False


@pytest.mark.parametrize("name", sorted(set(CHARSETS) - {"binary"}))
def test_samples(any_server, name):
    server_name = name
    rows = any_server.query("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
    known = {row[0] for row in rows}
    if name == "utf8mb3" and "utf8mb3" not in known:
        server_name = "utf8"
    if server_name not in known:
        assert name == "gb18030"
        pytest.skip(f"{any_server.name} has no {name}")
    candidates = sorted(set(sample(random.Random(name), name)))
    compared = 0
    for at in range(0, len(candidates), 1000):
        union = " UNION ALL ".join(
            f"SELECT UNHEX('{one.hex()}') AS k" for one in candidates[at : at + 1000]
        )
        text = f"CONVERT(k USING {server_name})"
        rows = any_server.query(
            f"SELECT HEX(k), HEX({text}), HEX(CONVERT({text} USING utf8mb4)) FROM ({union}) AS s"
        )
        for key, same, shown in rows:
            data = bytes.fromhex(key)
            try:
                mine = decode_text(data, ID_OF[name])
            except UndecodableTextError:
                # The server refuses it, changes it, or shows what is not it (question marks).
                assert key != same or shown is None or not writes_back(shown, name, data), key
                continue
            assert key == same, key
            assert bytes.fromhex(shown).decode("utf-8") == mine, key
            compared += 1
    assert compared > 100
