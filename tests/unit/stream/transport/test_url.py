"""URLs of sources."""

import pytest

from replica_client.errors import ConfigError
from replica_client.protocol.wire.auth.plugin import UnverifiedPassword
from replica_client.stream.transport.connect_options import (
    ConnectOptions,
    TlsMode,
    TlsOptions,
    is_source_url,
    parse_url,
)


def test_all_parts() -> None:
    options = parse_url(
        "mysql://r%65pl:p%40ss%2Fw%3Ard%23@db1.example:3307/shop?tls=verify-identity&tls_ca=/ca.pem"
        "&tls_cert=/c.pem&tls_key=/k.pem&connect_timeout=2.5&read_timeout=7&max_packet_size=2000000"
        "&allow_public_key_retrieval=yes&server_public_key=/key.pem&compression=ZSTD"
        "&program_name=etl"
    )
    assert options == ConnectOptions(
        host="db1.example",
        port=3307,
        user="repl",
        password="p@ss/w:rd#",
        database="shop",
        tls=TlsOptions(TlsMode.VERIFY_IDENTITY, "/ca.pem", "/c.pem", "/k.pem"),
        connect_timeout=2.5,
        read_timeout=7,
        max_packet_size=2_000_000,
        allow_public_key_retrieval=True,
        server_public_key="/key.pem",
        compression="zstd",
        program_name="etl",
    )
    assert options.address == "db1.example:3307"


def test_defaults() -> None:
    options = parse_url("mariadb://repl@h")
    assert (options.host, options.port, options.password) == ("h", 3306, "")
    assert options.tls.mode is TlsMode.PREFERRED
    assert not options.tls.verifies_chain
    assert parse_url("mysql://").user  # the operating system's


def test_ipv6_and_unix_socket() -> None:
    assert parse_url("mysql://u@[::1]:3307").address == "[::1]:3307"
    options = parse_url("mysql://u@/?socket=%2Frun%2Fmysqld.sock")
    assert options.unix_socket == options.address == "/run/mysqld.sock"


@pytest.mark.parametrize("text", ["VERIFY_CA", "verify-ca", "verify_ca"])
def test_mysqls_own_option_names(text) -> None:
    options = parse_url(f"mysql://u@h/?ssl-mode={text}&ssl-ca=/ca.pem")
    assert options.tls == TlsOptions(TlsMode.VERIFY_CA, "/ca.pem")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://u@h", "mysql://"),
        ("h:3306", "mysql://"),
        ("", "mysql://"),
        ("mysql://u:hunter2@h:port/", "host or port"),
        ("mysql://u:hunter2@h:99999/", "host or port"),
        ("mysql://u:hunter2@h:0/", "port 0"),
        ("mysql://u:hunter2@[::1/", "percent-encode"),
        ("mysql://u:hun#ter2@h/", "%23"),
        ("mysql://u:hunter2@h/a/b", "one path part"),
        ("mysql://u:hunter2@h/?tsl=required", "'tsl'.*tls_ca"),
        ("mysql://u:hunter2@h/?tls=maybe", "verify-identity"),
        ("mysql://u:hunter2@h/?connect_timeout=soon", "connect_timeout .*seconds"),
        ("mysql://u:hunter2@h/?connect_timeout=0", "more than 0"),
        ("mysql://u:hunter2@h/?compression=lz4", "zlib"),
        ("mysql://u:hunter2@h/?tls_fingerprint=12:34", "tls_fingerprint must be sha256:"),
        ("mysql://u:hunter2@h/?tls_fingerprint=", "tls_fingerprint must be sha256:"),
        (f"mysql://u:hunter2@h/?tls_fingerprint=sha1:{'00' * 32}", "tls_fingerprint must be"),
        (f"mysql://u:hunter2@h/?tls=disabled&tls_fingerprint=sha256:{'00' * 32}", "disabled"),
        ("mysql://u:hunter2@h/?unverified_password=yes", "never.*caching_sha2.*any"),
        ("mysql://u:hunter2@h/?max_packet_size=1", "1 MiB"),
        ("mysql://u:hunter2@h/?allow_public_key_retrieval=2", "true or false"),
    ],
)
def test_mistakes_give_one_line_without_the_password(url, text) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        parse_url(url)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "ter2" not in repr(caught.value)


def test_password_is_not_shown() -> None:
    assert "hunter2" not in repr(parse_url("mysql://u:hunter2@h/"))
    assert "hunter2" not in repr(TlsOptions(key_password="hunter2"))


def test_what_is_a_url() -> None:
    assert is_source_url("MySQL://h")
    assert is_source_url("mariadb://h/")
    for text in ("binlog.000001", "/a/mysql://b", "http://h", "mysql", "mysql:/h"):
        assert not is_source_url(text)


def test_fingerprints_as_openssl_and_we_write_them() -> None:
    digits = "0123456789abcdef" * 4
    with_colons = ":".join(digits[at : at + 2] for at in range(0, 64, 2)).upper()
    for text in (f"sha256:{digits}", f"SHA256:{with_colons}", f" sha256:{digits} "):
        tls = parse_url(f"mysql://u@h/?tls_fingerprint={text}").tls
        assert tls.fingerprint == f"sha256:{digits}"
        assert (tls.is_required, tls.verifies_chain, tls.proof) == (True, False, "its fingerprint")
    two = f"sha256:{digits},sha256:{'0' * 64}"
    assert parse_url(f"mysql://u@h/?tls-fingerprint={two}").tls.fingerprint == two


@pytest.mark.parametrize(
    ("query", "required", "proof"),
    [
        ("", False, ""),
        ("tls=required", True, ""),
        ("tls=verify-ca", True, ""),  # everybody has a certificate of a system's authority
        ("tls=verify-identity", True, "its chain and name"),
        ("tls_ca=/ca.pem", True, "its chain"),
        ("tls=verify-ca&tls_ca=/ca.pem", True, "its chain"),
    ],
)
def test_what_a_certificate_is_accepted_for(query, required, proof) -> None:
    tls = parse_url(f"mysql://u@h/?{query}").tls
    assert (tls.is_required, tls.proof) == (required, proof)


def test_who_may_have_the_password() -> None:
    assert parse_url("mysql://u@h/").unverified_password is UnverifiedPassword.CACHING_SHA2
    options = parse_url("mysql://u@h/?unverified-password=NEVER")
    assert options.unverified_password is UnverifiedPassword.NEVER


def test_names_of_this_machine() -> None:
    for host in ("localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1"):
        assert ConnectOptions(host=host).is_local
    for host in ("127.0.0.1.example.com", "db1", "10.0.0.1", "::2", ""):
        assert not ConnectOptions(host=host).is_local
    assert ConnectOptions(host="db1", unix_socket="/s").is_local
