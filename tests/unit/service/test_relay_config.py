"""The relay's configuration: every key is checked, and errors name file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_client.errors import ConfigError
from replica_client.protocol.wire.auth.server import sha256_crypt
from replica_client.service.examples import RELAY_EXAMPLE as EXAMPLE
from replica_client.service.relay_config_file import make_relay, read_relay_config

SALT = bytes(range(60, 80))
HASH = (b"$A$005$" + SALT + sha256_crypt(b"secret", SALT, 5000)).hex()
NATIVE = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"


def uncommented() -> str:
    """The example with every key that has a value of its own."""
    lines = []
    for line in EXAMPLE.splitlines():
        key = line.removeprefix("# ").partition(" = ")[0]
        if line.startswith("# ") and key.isidentifier() and "hash" not in key:
            line = line.removeprefix("# ")
        lines.append("[tls]" if line.startswith("# [tls]") else line)
    return "\n".join(lines)


def read(tmp_path: Path, text: str):
    path = tmp_path / "relay.toml"
    path.write_text(text)
    return read_relay_config(path, {})


def test_the_example_is_right(tmp_path) -> None:
    config = read(tmp_path, EXAMPLE)
    assert config.relay.listen == "127.0.0.1:3307"
    assert "secret" not in repr(config)
    relay = make_relay(config)
    assert relay.server is None


def test_its_comments_are_the_defaults(tmp_path) -> None:
    text = uncommented().replace('"sha256:…"', '""').replace("server_id = 4242", "")
    found, plain = read(tmp_path, text), read(tmp_path, EXAMPLE)
    assert found.relay == plain.relay
    assert found.accounts == plain.accounts
    assert found.tls is not None
    with pytest.raises(ConfigError, match="tls: .*relay.pem: No such file"):
        make_relay(found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[source]", "[sources]", "line 21: sources: no such key; did you mean 'source'"),
        ("[source]", "[[source]]", "a relay has one source: write [source]"),
        (
            'listen = "127.0.0.1:3307"',
            'listen = "3307"',
            "line 7: relay.listen: .* is not an address",
        ),
        ("[[account]]", "[account]", r"write \[\[account\]\], in double brackets"),
        ("[[account]]", "[[relay.account]]", "no such key"),
        ('user = "replica"', 'user = "replica"\nhash = "x"', "and not both"),
        ('user = "replica"', 'user = "replica"\nplugin = "dialog"', "plugin"),
        (
            "# keep_size = ",
            "keep_size = 'much' # ",
            "line 10: relay.keep_size: 'much' is not a size",
        ),
        ("# archive = ", "archive = 'ftp://x/y' # ", "line 13: relay.archive: ftp:// is not supp"),
        ("# connections = ", "connections = 0 # ", "relay.connections"),
        ('user = "replica"', 'user = ""', "account.user"),
    ],
)
def test_what_is_wrong(tmp_path, old, new, message) -> None:
    assert old in EXAMPLE
    with pytest.raises(ConfigError, match=message.replace("[source]", r"\[source\]")) as caught:
        read(tmp_path, EXAMPLE.replace(old, new, 1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("plugin", "text"), [("caching_sha2_password", HASH), ("mysql_native_password", NATIVE)]
)
def test_hashes_instead_of_passwords(tmp_path, plugin, text) -> None:
    account = f'user = "replica"\nplugin = "{plugin}"\nhash = '
    password = 'user = "replica"\npassword = "${RELAY_PASSWORD:-secret}"'
    assert password in EXAMPLE
    make_relay(read(tmp_path, EXAMPLE.replace(password, f'{account}"{text}"')))
    with pytest.raises(ConfigError, match="account 'replica': hash: ") as caught:
        make_relay(read(tmp_path, EXAMPLE.replace(password, f'{account}"{text[:-2]}"')))
    assert text[:-2] not in str(caught.value)


def test_two_accounts_of_one_name(tmp_path) -> None:
    more = '\n[[account]]\nuser = "replica"\npassword = "x"\n'
    with pytest.raises(ConfigError, match="'replica' is there twice"):
        read(tmp_path, EXAMPLE + more)
