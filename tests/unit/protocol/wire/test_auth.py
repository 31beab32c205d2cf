"""Authentication plugins: known vectors, and both sides against each other."""

import base64
import hashlib
import random
from dataclasses import replace

import pytest

from replica_client.errors import (
    AccessDeniedError,
    MalformedPacketError,
    ProtocolError,
    ServerError,
    TlsError,
    UnexpectedPacketError,
)
from replica_client.protocol.constants.client_server import Capability
from replica_client.protocol.wire.auth import (
    CLIENT_PLUGINS,
    UNMARKED_PLUGINS,
    client_plugin,
    ed25519,
)
from replica_client.protocol.wire.auth.parsec import verify as verify_parsec
from replica_client.protocol.wire.auth.passwords import scramble_native, scramble_sha2
from replica_client.protocol.wire.auth.plugin import (
    Credentials,
    UnverifiedPassword,
    certificate_proof,
)
from replica_client.protocol.wire.auth.server import (
    ClearPassword,
    ServerLogin,
    is_final,
    stored_password,
)
from replica_client.protocol.wire.connection_phase import (
    BASE_CAPABILITIES,
    HandshakeResponse,
    HandshakeV10,
    LoginSession,
)
from replica_client.protocol.wire.packets import (
    AuthMoreData,
    AuthSwitchRequest,
    ErrPacket,
    OkPacket,
)
from replica_client.server.accounts import rsa_key

SCRAMBLE = bytes(range(1, 21))
LONG_SCRAMBLE = bytes(range(32))


# Logins of the password "secret" that MySQL 9.7.4 and MariaDB 11.8.6 accepted: random bytes of the
# greeting, those of the plugin, and our answer to them.
ACCEPTED = {
    "mysql_native_password": (
        "693878776c3a787048575b437a625a7c253f4b3e",
        "693878776c3a787048575b437a625a7c253f4b3e",
        "840f35818f6e482f28963a752f1ca06d69820c2d",
    ),
    "client_ed25519": (
        "7b2953474c2a282c434a2e4349267d697328695b",
        "9d205743a728ad018bbe4b8b8cc0dacc99dd6926cd67ba9bd5be7bf49b916199",
        "88558adf0c6ae38fd300d18276100bc6a3388d0ec86b6ffd60f311da736c1e59"
        "cc201f68236507e31b4c7b31a9cb42c5c50d93a27224a1ba3773d59d686bef0f",
    ),
    "parsec": (
        "3f5c3326654b2a2d42446d793b56224268633a38",
        "276ad8eea2306e6aab9dc7230117c8727196db90cd75e54de07f44a41f070e87",
        "82c3b57153e993c55e8f87a02df83aec293e3bbbe6ea29bdd95baca41ffc1903da5003903c88d2de56e6dfe4"
        "1d69c5db117c9619cef920f1832f326c291b9b33156e2f77c3d0e10c9d33bbd2c740d77c110f2d73e708608c"
        "b3295f44749b3102",
    ),
    "caching_sha2_password": (
        "4a7b2729170d540f7f012c113311105223446430",
        "4a7b2729170d540f7f012c113311105223446430",
        "5285362724e5c7b6aa42be21d7c54070f8871aca0e31455f546ae10824b91754",
    ),
}
PARSEC_SALT = bytes.fromhex("50000d1dc4ef41647e4438a07bf250e9f441804b")
FINGERPRINT = bytes.fromhex("92cd7bd1f87b21bbd9aa9204cf32073e572d8566c36b7f21fe2ac253eb494297")
# What MariaDB 11.8.6 put into the OK packets of those logins, for that certificate.
PROOFS = {
    "mysql_native_password": b"5DEF4FCABDF5E29444FD63B1614818C0EAEBA38C328C96AC53198543ED1DFA00",
    "client_ed25519": b"AE37A98F51071D7E26AA01DDDFAFE9A8735F299CBBB8391478BD5BBAE12D84DB",
    "parsec": b"85F7E63DA16008312F6B71BA9A20A94D42F92CDA28027D27E6F57CA0DD06FFB8",
}


@pytest.mark.parametrize(
    "plugin", ["mysql_native_password", "caching_sha2_password", "client_ed25519"]
)
def test_answers_that_servers_accepted(plugin) -> None:
    _, scramble, answer = map(bytes.fromhex, ACCEPTED[plugin])
    client = client_plugin(plugin, Credentials(b"secret"))
    assert client.begin(scramble) == answer
    assert client_plugin(plugin, Credentials(b"Secret")).begin(scramble) != answer
    assert client_plugin(plugin, Credentials(b"secret")).begin(scramble[::-1]) != answer


def test_a_parsec_signature_that_a_server_accepted() -> None:
    _, scramble, answer = map(bytes.fromhex, ACCEPTED["parsec"])
    assert verify_parsec(answer, scramble, b"secret", PARSEC_SALT[1], PARSEC_SALT[2:])
    assert not verify_parsec(answer, scramble, b"Secret", PARSEC_SALT[1], PARSEC_SALT[2:])


@pytest.mark.parametrize("plugin", PROOFS)
def test_proofs_of_a_certificate_that_a_server_sent(plugin) -> None:
    greeted, scramble, _ = map(bytes.fromhex, ACCEPTED[plugin])
    client = client_plugin(plugin, Credentials(b"secret"))
    client.begin(scramble)
    if plugin == "parsec":
        client.more(PARSEC_SALT)
    proof = b"A\x01" + PROOFS[plugin]
    assert certificate_proof(client.password_hash(), greeted, FINGERPRINT) == proof


CERTIFICATE = b"a certificate in DER"
BEHIND_TLS = Credentials(b"secret", secure=True, certificate=CERTIFICATE)


def session_behind_tls(info: bytes, credentials: Credentials = BEHIND_TLS) -> LoginSession:
    session = LoginSession(greeting("mysql_native_password"), "repl", credentials)
    session.response()
    session.receive(OkPacket(info=info).encode())
    return session


def test_the_proof_of_a_certificate() -> None:
    known = hashlib.sha1(hashlib.sha1(b"secret").digest()).digest()
    right = certificate_proof(known, SCRAMBLE, hashlib.sha256(CERTIFICATE).digest())
    assert session_behind_tls(right).proved
    assert session_behind_tls(right.lower().replace(b"a", b"A", 1)).proved
    for info in (b"", right[:40], b"\x05hello"):  # older servers; a certificate of an authority
        session = session_behind_tls(info)
        assert session.ok is not None
        assert not session.proved
    other = certificate_proof(known, SCRAMBLE, hashlib.sha256(b"another").digest())
    guessed = certificate_proof(bytes(20), SCRAMBLE, hashlib.sha256(CERTIFICATE).digest())
    for info in (other, guessed, right[:-1] + b"!"):
        with pytest.raises(TlsError, match="stands between"):
            session_behind_tls(info)
    # A certificate that is verified already needs no proof, and its proxy's is another one.
    assert session_behind_tls(other, replace(BEHIND_TLS, verified=True)).ok is not None
    assert not session_behind_tls(right, replace(BEHIND_TLS, password=b"")).proved


def test_the_password_is_sent_once_tls_is_up() -> None:
    """The same session, before TLS and after it: the credentials are those that were given last."""
    session = LoginSession(greeting(), "repl", Credentials(b"not this one"))
    session.ssl_request()
    session.secured(BEHIND_TLS)
    session.response()
    assert session.receive(AuthMoreData(b"\x04").encode()) == b"secret\0"


def test_the_base_point_of_ed25519_is_that_of_rfc_8032() -> None:
    """It is computed once, when the module is imported: 4/5, and the even x (RFC 8032, 5.1)."""
    assert ed25519._base_point() == ed25519._BASE
    assert ed25519._encode(ed25519._base_point()).hex() == "58" + "66" * 31


def test_whoever_was_given_the_password_proves_nothing_with_it() -> None:
    session = LoginSession(greeting(), "repl", BEHIND_TLS)
    session.response()
    assert session.receive(AuthMoreData(b"\x04").encode()) == b"secret\0"
    assert session.exposed
    session.receive(AuthSwitchRequest("mysql_native_password", SCRAMBLE).encode())
    known = hashlib.sha1(hashlib.sha1(b"secret").digest()).digest()
    right = certificate_proof(known, SCRAMBLE, hashlib.sha256(CERTIFICATE).digest())
    session.receive(OkPacket(info=right).encode())
    assert session.exposed
    assert not session.proved


def test_no_password_is_no_answer() -> None:
    assert scramble_native(b"", SCRAMBLE) == b""


def test_ed25519_public_key_of_the_mariadb_documentation() -> None:
    # SELECT ed25519_password("secret")
    key = ed25519.public_key(b"secret")
    assert base64.b64encode(key) == b"ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY="


def test_ed25519_signature_verifies_with_the_standard_algorithm() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    for password in (b"", b"secret", "pässwörd".encode(), bytes(100)):
        key = Ed25519PublicKey.from_public_bytes(ed25519.public_key(password))
        key.verify(ed25519.sign(password, LONG_SCRAMBLE), LONG_SCRAMBLE)


def test_ed25519_of_seeds_is_that_of_the_standard() -> None:
    """A password of 32 bytes is used as RFC 8032 uses a seed: keys and signatures are the same."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    chance = random.Random(8032)
    for _ in range(12):
        seed, message = chance.randbytes(32), chance.randbytes(32)
        key = Ed25519PrivateKey.from_private_bytes(seed)
        assert ed25519.public_key(seed) == key.public_key().public_bytes_raw()
        assert ed25519.sign(seed, message) == key.sign(message)


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
    server = ServerLogin(
        plugin, stored_password(plugin, account), scramble, secure, cached, rsa_key(), unix_socket
    )
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
        ("sha256_password", {"secure": True, "verified": True}),
        ("sha256_password", {"secure": True, "unix_socket": True}),
        ("caching_sha2_password", {"cached": False, "secure": True, "unix_socket": True}),
        ("sha256_password", {"allow_public_key_retrieval": True}),
        ("mysql_clear_password", {"secure": True, "verified": True}),
        ("dialog", {"secure": True, "verified": True}),
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


CLEAR_PLUGINS = ("mysql_clear_password", "dialog", "sha256_password", "caching_sha2_password")


@pytest.mark.parametrize("plugin", CLEAR_PLUGINS)
@pytest.mark.parametrize("policy", UnverifiedPassword)
def test_who_gets_the_password_inside_tls(plugin, policy) -> None:
    unverified = replace(BEHIND_TLS, unverified_password=policy)
    allowed = policy is UnverifiedPassword.ANY or (
        policy is UnverifiedPassword.CACHING_SHA2 and plugin == "caching_sha2_password"
    )

    def ask(credentials: Credentials) -> bool:
        client = client_plugin(plugin, credentials)
        answer = client.begin(SCRAMBLE)
        if plugin == "caching_sha2_password":
            answer = client.more(b"\x04")
        assert answer == b"secret\0"
        return client.exposed

    if allowed:
        assert ask(unverified)
    else:
        with pytest.raises(UnexpectedPacketError, match="tls_fingerprint=sha256:[0-9a-f]{64} "):
            ask(unverified)
    assert not ask(replace(unverified, verified=True))


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
    login = ServerLogin("dialog", ClearPassword(b"hunter2"), SCRAMBLE, False)
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


def test_ed25519_base_point_is_that_of_rfc_8032() -> None:
    x = 15112221349535400772501151409588531511454012693041857206046113283949847762202
    y = 46316835694926478169428394003475163141307993866256225615783033603165251855960
    point = ed25519._base_point()
    assert point == (x, y, 1, x * y % (2**255 - 19))
    assert ed25519._encode(point).hex() == "58" + "66" * 31
    # The base's order times the base is the neutral element.
    assert ed25519._encode(ed25519._multiply(ed25519._L, point)) == bytes([1, *bytes(31)])
