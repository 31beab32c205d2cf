"""Authentication plugins: known vectors, and both sides against each other."""

import base64
import random

import pytest

from replica_client.constants.capabilities import Capability
from replica_client.errors import (
    AccessDeniedError,
    MalformedPacketError,
    ProtocolError,
    ServerError,
    UnexpectedPacketError,
)
from replica_client.testing.certificates import rsa_key
from replica_client.wire.auth import CLIENT_PLUGINS, UNMARKED_PLUGINS, client_plugin, ed25519
from replica_client.wire.auth.caching_sha2 import scramble_sha2
from replica_client.wire.auth.native import scramble_native
from replica_client.wire.auth.plugin import Credentials
from replica_client.wire.auth.server import ServerLogin, is_final
from replica_client.wire.handshake import HandshakeResponse, HandshakeV10
from replica_client.wire.login import BASE_CAPABILITIES, LoginSession
from replica_client.wire.packets import AuthMoreData, AuthSwitchRequest, ErrPacket, OkPacket

SCRAMBLE = bytes(range(1, 21))
LONG_SCRAMBLE = bytes(range(32))


def test_native_password_vector() -> None:
    # SHA1(p) ^ SHA1(scramble + SHA1(SHA1(p))), checked against a MySQL 5.6 login.
    assert scramble_native(b"", SCRAMBLE) == b""
    assert len(scramble_native(b"secret", SCRAMBLE)) == 20


def test_ed25519_public_key_of_the_mariadb_documentation() -> None:
    # SELECT ed25519_password("secret")
    key = ed25519.public_key(b"secret")
    assert base64.b64encode(key) == b"ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY="


def test_ed25519_signature_verifies_with_the_standard_algorithm() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    for password in (b"", b"secret", "pässwörd".encode(), bytes(100)):
        key = Ed25519PublicKey.from_public_bytes(ed25519.public_key(password))
        key.verify(ed25519.sign(password, LONG_SCRAMBLE), LONG_SCRAMBLE)


def test_sha2_needs_the_scramble() -> None:
    assert scramble_sha2(b"", SCRAMBLE) == b""
    assert scramble_sha2(b"secret", SCRAMBLE) != scramble_sha2(b"secret", SCRAMBLE[::-1])


def talk(plugin: str, password: bytes, *, account: bytes = b"secret", **options) -> bool:
    """Client and server side of a plugin against each other."""
    secure = options.pop("secure", False)
    unix_socket = options.get("unix_socket", False)
    cached = options.pop("cached", True)
    scramble = LONG_SCRAMBLE if plugin in ("client_ed25519", "parsec") else SCRAMBLE
    client = client_plugin(plugin, Credentials(password, secure=secure, **options))
    server = ServerLogin(plugin, account, scramble, secure, cached, rsa_key(), unix_socket)
    data: bytes | None = client.begin(scramble)
    while data is not None:
        answer = server.receive(data)
        if isinstance(answer, bool):
            return answer
        unmarked = plugin in UNMARKED_PLUGINS
        data = client.more(answer if unmarked else AuthMoreData.decode(answer).data)
        if data is None:
            return is_final(answer)
    raise AssertionError("no end")


@pytest.mark.parametrize(
    ("plugin", "options"),
    [
        ("mysql_native_password", {}),
        ("client_ed25519", {}),
        ("parsec", {}),
        ("caching_sha2_password", {}),
        ("caching_sha2_password", {"cached": False, "secure": True}),
        ("caching_sha2_password", {"cached": False, "allow_public_key_retrieval": True}),
        ("sha256_password", {"secure": True}),
        ("sha256_password", {"secure": True, "unix_socket": True}),
        ("caching_sha2_password", {"cached": False, "secure": True, "unix_socket": True}),
        ("sha256_password", {"allow_public_key_retrieval": True}),
        ("mysql_clear_password", {"secure": True}),
    ],
)
def test_both_sides(plugin, options) -> None:
    assert talk(plugin, b"secret", **options)
    assert not talk(plugin, b"wrong", **options)
    password = "pässwörd €".encode()
    assert talk(plugin, password, account=password, **options)


@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog"])
def test_no_clear_password_without_tls(plugin) -> None:
    with pytest.raises(UnexpectedPacketError, match="refused without TLS"):
        client_plugin(plugin, Credentials(b"secret")).begin(SCRAMBLE)


@pytest.mark.parametrize("plugin", ["caching_sha2_password", "sha256_password"])
def test_a_key_from_the_server_is_not_trusted_by_itself(plugin) -> None:
    with pytest.raises(UnexpectedPacketError, match="allow_public_key_retrieval"):
        talk(plugin, b"secret", cached=False)


@pytest.mark.parametrize("key", [b"", b"nonsense", b"-----BEGIN PUBLIC KEY-----\nAA==\n"])
def test_a_key_that_is_none(key) -> None:
    client = client_plugin("sha256_password", Credentials(b"x", allow_public_key_retrieval=True))
    assert client.begin(SCRAMBLE) == b"\x01"
    with pytest.raises(MalformedPacketError):
        client.more(key)


@pytest.mark.parametrize("data", [b"", b"P", b"P\x0b" + bytes(18), b"P\0" + bytes(17), b"Q\0"])
def test_parsec_parameters_that_are_none(data) -> None:
    client = client_plugin("parsec", Credentials(b"secret"))
    assert client.begin(LONG_SCRAMBLE) == b""
    with pytest.raises(MalformedPacketError):
        client.more(data)


def test_unknown_plugin_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnexpectedPacketError, match="'auth_gssapi_client'.*client_ed25519"):
        client_plugin("auth_gssapi_client", Credentials(b"x"))


def test_passwords_are_not_shown() -> None:
    login = ServerLogin("mysql_native_password", b"hunter2", SCRAMBLE, False)
    assert "hunter2" not in repr(Credentials(b"hunter2")) + repr(login)


def greeting(plugin: str = "caching_sha2_password", **changes) -> HandshakeV10:
    return HandshakeV10("9.7.4", 1, SCRAMBLE, BASE_CAPABILITIES, auth_plugin=plugin, **changes)


def test_login_with_a_switch_of_plugins() -> None:
    session = LoginSession(greeting(), "repl", Credentials(b"secret"), database="shop")
    response = HandshakeResponse.decode(session.response())
    assert response.user == "repl"
    assert response.auth_plugin == "caching_sha2_password"
    assert not response.capabilities & Capability.CLIENT_LOCAL_FILES
    switch = AuthSwitchRequest("client_ed25519", LONG_SCRAMBLE)
    assert session.receive(switch.encode()) == ed25519.sign(b"secret", LONG_SCRAMBLE)
    assert session.receive(OkPacket().encode()) is None
    assert session.ok is not None
    assert session.plugin_name == "client_ed25519"


def test_login_never_begins_with_a_clear_password() -> None:
    session = LoginSession(
        greeting("mysql_clear_password"), "repl", Credentials(b"secret", secure=True)
    )
    assert b"secret" not in session.response()


def test_login_refused() -> None:
    session = LoginSession(greeting(), "repl", Credentials(b"secret"))
    session.response()
    with pytest.raises(AccessDeniedError):
        session.receive(ErrPacket(1045, "Access denied", "28000").encode())


def test_login_without_end() -> None:
    session = LoginSession(greeting(), "repl", Credentials(b"secret"))
    session.response()
    switch = AuthSwitchRequest("mysql_native_password", SCRAMBLE).encode()
    with pytest.raises(UnexpectedPacketError, match="does not come to an end"):
        for _ in range(100):
            session.receive(switch)


def test_random_servers_raise_only_typed_errors() -> None:
    rng = random.Random(7)
    plugins = [*CLIENT_PLUGINS, "", "unknown"]
    for _ in range(3000):
        credentials = Credentials(b"secret", rng.random() < 0.5, rng.random() < 0.5)
        session = LoginSession(greeting(rng.choice(plugins)), "repl", credentials)
        try:
            session.response()
            for _ in range(5):
                kind = rng.randrange(4)
                data = rng.randbytes(rng.randrange(40))
                if kind == 0:
                    payload = AuthSwitchRequest(rng.choice(plugins), data).encode()
                elif kind == 1:
                    payload = AuthMoreData(data[:2] if rng.random() < 0.7 else data).encode()
                elif kind == 2:
                    payload = data
                else:
                    payload = rng.choice((b"\x00", b"\xff", b"\xfe", b"\x01", b"\xfb")) + data
                session.receive(payload)
        except (ProtocolError, ServerError):
            continue
