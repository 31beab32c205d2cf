"""Passwords as servers keep them."""

import hashlib

import pytest

from replica_client.protocol.wire.auth.passwords import scramble_native, scramble_sha2
from replica_client.protocol.wire.auth.server import (
    ClearPassword,
    NativeVerifier,
    Sha2Verifier,
    sha256_crypt,
    stored_password,
)

SCRAMBLE = bytes(range(1, 21))
# From mysql.user of a MySQL 5.6, PASSWORD('secret').
NATIVE = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"


@pytest.mark.parametrize(
    ("password", "salt", "rounds", "expected"),
    [  # glibc's crypt()
        (b"Hello world!", b"saltstring", 5000, b"5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
    ],
)
def test_sha256_crypt(password, salt, rounds, expected) -> None:
    assert sha256_crypt(password, salt, rounds) == expected


def test_long_passwords_cost_nothing() -> None:
    assert sha256_crypt(b"x" * 257, b"salt", 5000) == b""


@pytest.mark.parametrize("password", [b"secret", "pä$$".encode(), b"x" * 200])
def test_the_verifier_of_mysql_native_password(password) -> None:
    stored = NativeVerifier.of(password)
    assert stored.proves_native(scramble_native(password, SCRAMBLE), SCRAMBLE)
    assert not stored.proves_native(scramble_native(password + b"!", SCRAMBLE), SCRAMBLE)
    assert not stored.proves_native(scramble_native(password, SCRAMBLE[::-1]), SCRAMBLE)
    assert not stored.proves_native(b"", SCRAMBLE)
    assert not stored.proves_native(b"\0" * 20, SCRAMBLE)
    assert stored.is_password(password)
    assert not stored.is_password(password + b"!")


def test_the_hash_that_mysql_shows() -> None:
    stored = NativeVerifier.parse(NATIVE)
    assert stored.proves_native(scramble_native(b"secret", SCRAMBLE), SCRAMBLE)
    for text in ("", NATIVE[:-1], NATIVE[1:], NATIVE + "0", "*" + "g" * 40):
        with pytest.raises(ValueError, match="40 hexadecimal"):
            NativeVerifier.parse(text)


@pytest.mark.parametrize("password", [b"secret", "pä$$".encode(), b"x" * 200])
def test_the_verifier_of_caching_sha2_password(password) -> None:
    stored = Sha2Verifier.of(password)
    assert stored.is_cached
    assert stored.proves_sha2(scramble_sha2(password, SCRAMBLE), SCRAMBLE)
    assert not stored.proves_sha2(scramble_sha2(password + b"!", SCRAMBLE), SCRAMBLE)
    assert not stored.proves_sha2(b"", SCRAMBLE)
    assert stored.is_password(password)
    assert not stored.is_password(password[:-1])


def test_a_crypt_hash_opens_the_fast_path_after_a_full_login() -> None:
    salt = bytes(range(40, 60))
    text = b"$A$005$" + salt + sha256_crypt(b"secret", salt, 5000)
    stored = Sha2Verifier.parse(text)
    answer = scramble_sha2(b"secret", SCRAMBLE)
    assert not stored.is_cached
    assert not stored.proves_sha2(answer, SCRAMBLE)
    assert not stored.is_password(b"Secret")
    assert not stored.is_cached
    assert stored.is_password(b"secret")
    assert stored.is_cached
    assert stored.proves_sha2(answer, SCRAMBLE)
    for wrong in (b"", text[:-1], text + b"a", b"$B$005$" + text[7:], b"$A$00g$" + text[7:]):
        with pytest.raises(ValueError, match=r"\$A\$"):
            Sha2Verifier.parse(wrong)


def test_nothing_is_shown() -> None:
    for plugin in ("mysql_native_password", "caching_sha2_password", "dialog"):
        assert "secret" not in repr(stored_password(plugin, b"secret"))
    assert isinstance(stored_password("caching_sha2_password", b""), ClearPassword)
    digest = hashlib.sha256(hashlib.sha256(b"secret").digest()).hexdigest()
    assert digest not in repr(Sha2Verifier.of(b"secret"))


def test_one_password_in_two_forms() -> None:
    """They can be compared once a client has shown the password."""
    salt = b"s" * 20
    text = b"$A$005$" + salt + sha256_crypt(b"secret", salt, 5000)
    clear, stored, again = (
        Sha2Verifier.of(b"secret"),
        Sha2Verifier.parse(text),
        Sha2Verifier.parse(text),
    )
    assert stored.is_same(again)
    assert not clear.is_same(stored)
    assert stored.is_password(b"secret")
    assert clear.is_same(stored)
    assert stored.is_same(clear)
    assert stored.is_same(again)
    assert again.is_same(stored)
    assert not Sha2Verifier.of(b"other").is_same(stored)
    assert not Sha2Verifier.of(b"other").is_same(again)
