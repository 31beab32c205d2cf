"""URLs of sources."""

import pytest

from replica_client.errors import ConfigError
from replica_client.transport.options import ConnectOptions, TlsMode, TlsOptions
from replica_client.transport.url import is_source_url, parse_url


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
        ("mysql://u:hunter2@h/?connect_timeout=0", "greater than 0"),
        ("mysql://u:hunter2@h/?compression=lz4", "zlib"),
        ("mysql://u:hunter2@h/?max_packet_size=1", "1 MiB"),
        ("mysql://u:hunter2@h/?allow_public_key_retrieval=2", "true | false"),
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
