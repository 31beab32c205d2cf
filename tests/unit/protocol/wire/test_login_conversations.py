"""What each plugin sends, step by step, against formulas written here anew from the protocol's documentation.

The client and the testing source share their functions: where one is wrong, both agree. Here nothing is shared: RSA and
OAEP are numbers and hashlib, the signatures are looked at by the verifier of cryptography.
"""

from __future__ import annotations

import hashlib
from itertools import cycle

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from replica_client.errors import UnexpectedPacketError
from replica_client.protocol.wire.auth import client_plugin
from replica_client.protocol.wire.auth.plugin import ClientPlugin, Credentials, UnverifiedPassword

SCRAMBLE = bytes.fromhex("0d0a1f7f2b4c5d6e7a01020304050607f0f1f2f3")
LONG_SCRAMBLE = bytes(range(100, 132))
PASSWORDS = [b"secret", b"p", "pässwörd €".encode(), b"0123456789012345678901234567890123456789"]
KEY = rsa.generate_private_key(65537, 2048)
PEM = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


def sha1(data: bytes) -> bytes:
    return hashlib.new("sha1", data).digest()


def sha256(data: bytes) -> bytes:
    return hashlib.new("sha256", data).digest()


def exclusive_or(left: bytes, right: bytes) -> bytes:
    size = len(left)
    return (int.from_bytes(left, "big") ^ int.from_bytes(right[:size], "big")).to_bytes(size, "big")


def mask(seed: bytes, size: int) -> bytes:
    """MGF1 of RFC 8017 with SHA-1."""
    return b"".join(sha1(seed + number.to_bytes(4, "big")) for number in range(size // 20 + 1))[
        :size
    ]


def opened(answer: bytes) -> bytes:
    """What is in an RSAES-OAEP message (RFC 8017, 7.1.2) with SHA-1 and no label."""
    numbers = KEY.private_numbers()
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    assert len(answer) == size
    message = pow(int.from_bytes(answer, "big"), numbers.d, modulus).to_bytes(size, "big")
    seed = exclusive_or(message[1:21], mask(message[21:], 20))
    block = exclusive_or(message[21:], mask(seed, size - 21))
    assert message[:1] == b"\0"
    assert block[:20] == sha1(b"")
    padding, one, text = block[20:].partition(b"\x01")
    assert not padding.strip(b"\0")
    assert one
    return text


def unmasked(text: bytes, scramble: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(text, cycle(scramble), strict=False))


def plugin(name: str, password: bytes, **options: object) -> ClientPlugin:
    return client_plugin(name, Credentials(password, **options))


@pytest.mark.parametrize("password", PASSWORDS)
def test_mysql_native_password(password: bytes) -> None:
    once = sha1(password)
    expected = exclusive_or(once, sha1(SCRAMBLE + sha1(once)))
    client = plugin("mysql_native_password", password)
    assert client.begin(SCRAMBLE) == expected
    assert client.begin(SCRAMBLE + b"\0") == expected
    assert client.password_hash() == sha1(once)
    assert not client.exposed
    with pytest.raises(UnexpectedPacketError, match="mysql_native_password"):
        client.more(b"\x04")


@pytest.mark.parametrize("password", PASSWORDS)
def test_caching_sha2_password_that_is_cached(password: bytes) -> None:
    client = plugin("caching_sha2_password", password)
    once = sha256(password)
    answer = client.begin(SCRAMBLE + b"\0")
    assert answer == exclusive_or(once, sha256(sha256(once) + SCRAMBLE))
    assert client.more(b"\x03") is None
    assert not client.exposed
    with pytest.raises(UnexpectedPacketError):
        client.more(b"\x05")


@pytest.mark.parametrize("password", PASSWORDS)
def test_caching_sha2_password_under_a_key_that_the_server_sends(password: bytes) -> None:
    client = plugin("caching_sha2_password", password, allow_public_key_retrieval=True)
    client.begin(SCRAMBLE + b"\0")
    assert client.more(b"\x04") == b"\x02"
    assert not client.exposed
    answer = client.more(PEM)
    assert answer is not None
    assert unmasked(opened(answer), SCRAMBLE) == password + b"\0"
    assert client.exposed
    with pytest.raises(UnexpectedPacketError):
        client.more(PEM)


def test_caching_sha2_password_under_a_key_that_is_known() -> None:
    client = plugin("caching_sha2_password", b"secret", server_public_key=PEM)
    client.begin(SCRAMBLE)
    answer = client.more(b"\x04")
    assert answer is not None
    assert unmasked(opened(answer), SCRAMBLE) == b"secret\0"
    assert not client.exposed


def test_caching_sha2_password_inside_tls() -> None:
    for verified in (True, False):
        client = plugin("caching_sha2_password", b"secret", secure=True, verified=verified)
        client.begin(SCRAMBLE)
        assert client.more(b"\x04") == b"secret\0"
        assert client.exposed is not verified
    client = plugin("caching_sha2_password", b"secret")
    client.begin(SCRAMBLE)
    with pytest.raises(UnexpectedPacketError, match="refused without TLS"):
        client.more(b"\x04")


@pytest.mark.parametrize("password", PASSWORDS)
def test_sha256_password(password: bytes) -> None:
    client = plugin("sha256_password", password, allow_public_key_retrieval=True)
    assert client.begin(SCRAMBLE + b"\0") == b"\x01"
    answer = client.more(PEM)
    assert answer is not None
    assert unmasked(opened(answer), SCRAMBLE) == password + b"\0"
    assert client.exposed
    with pytest.raises(UnexpectedPacketError):
        client.more(PEM)
    known = plugin("sha256_password", password, server_public_key=PEM)
    assert unmasked(opened(known.begin(SCRAMBLE)), SCRAMBLE) == password + b"\0"
    assert not known.exposed
    inside = plugin("sha256_password", password, secure=True, verified=True)
    assert inside.begin(SCRAMBLE) == password + b"\0"


def test_sha256_password_over_a_unix_socket_asks_for_the_key() -> None:
    client = plugin("sha256_password", b"secret", secure=True, unix_socket=True, verified=True)
    assert client.begin(SCRAMBLE) == b"\x01"
    answer = client.more(PEM)
    assert answer is not None
    assert unmasked(opened(answer), SCRAMBLE) == b"secret\0"
    assert not client.exposed
    assert plugin("sha256_password", b"").begin(SCRAMBLE) == b"\0"
    with pytest.raises(UnexpectedPacketError, match="refused without TLS"):
        plugin("sha256_password", b"secret").begin(SCRAMBLE)


@pytest.mark.parametrize("name", ["mysql_clear_password", "dialog"])
def test_passwords_in_clear(name: str) -> None:
    client = plugin(name, b"secret", secure=True, verified=True)
    assert client.begin(b"\x04Password: ") == b"secret\0"
    assert not client.exposed
    anyone = plugin(name, b"secret", secure=True, unverified_password=UnverifiedPassword.ANY)
    assert anyone.begin(SCRAMBLE) == b"secret\0"
    assert anyone.exposed
    with pytest.raises(UnexpectedPacketError):
        client.more(b"\x04Code: ")


# The curve of RFC 8032, section 5.1, in affine coordinates: slow, and another way than the package's.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
BASE = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)


def added(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    (x1, y1), (x2, y2) = left, right
    product = D * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + product, P - 2, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - product, P - 2, P) % P,
    )


def multiplied(number: int, point: tuple[int, int]) -> tuple[int, int]:
    found = (0, 1)
    for bit in bin(number)[2:]:
        found = added(found, found)
        if bit == "1":
            found = added(found, point)
    return found


@pytest.mark.parametrize("password", PASSWORDS[:2])
def test_client_ed25519(password: bytes) -> None:
    digest = bytearray(hashlib.sha512(password).digest()[:32])
    digest[0] &= 248
    digest[31] = digest[31] & 63 | 64
    x, y = multiplied(int.from_bytes(digest, "little"), BASE)
    public = (y | (x & 1) << 255).to_bytes(32, "little")
    client = plugin("client_ed25519", password)
    assert client.password_hash() == public
    signature = client.begin(LONG_SCRAMBLE + b"\0")
    ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, LONG_SCRAMBLE)
    assert int.from_bytes(signature[32:], "little") < ORDER
    assert plugin("client_ed25519", b"").password_hash() == b""


@pytest.mark.parametrize("factor", [0, 3])
def test_parsec(factor: int) -> None:
    salt = bytes(range(18))
    client = plugin("parsec", b"secret")
    assert client.begin(LONG_SCRAMBLE) == b""
    assert client.password_hash() == b""
    answer = client.more(b"P" + bytes((factor,)) + salt)
    assert answer is not None
    seed = hashlib.pbkdf2_hmac("sha512", b"secret", salt, 1024 * 2**factor, 32)
    public = ed25519.Ed25519PrivateKey.from_private_bytes(seed).public_key()
    public.verify(answer[32:], LONG_SCRAMBLE + answer[:32])
    assert client.password_hash() == b"P" + bytes((factor,)) + salt + public.public_bytes_raw()
    with pytest.raises(UnexpectedPacketError):
        client.more(b"P" + bytes((factor,)) + salt)
    empty = plugin("parsec", b"")
    empty.begin(LONG_SCRAMBLE)
    empty.more(b"P" + bytes((factor,)) + salt)
    assert empty.password_hash() == b""
