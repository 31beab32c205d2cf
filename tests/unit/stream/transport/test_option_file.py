"""Credentials from option files and the environment."""

import pytest

from replica_client.errors import ConfigError
from replica_client.stream.transport.connect_options import (
    TlsMode,
    from_environment,
    parse_option_file,
    parse_url,
    read_option_file,
)

TEXT = r"""
# mine
[mysqld]
user = mysql
[client]
user=alice
password = "p#w\\d with \"quotes\""
host = db7   # the old one
port=3307
ssl-mode = VERIFY_CA
ssl-ca = /etc/ca.pem
default-character-set = utf8mb4
!includedir /etc/mysql/conf.d
[mysql]
password=other
[replica_client]
user = repl
connect-timeout=3
"""


def test_groups_quotes_and_escapes() -> None:
    assert parse_option_file(TEXT) == {
        "user": "repl",
        "password": 'p#w\\d with "quotes"',
        "host": "db7",
        "port": "3307",
        "ssl_mode": "VERIFY_CA",
        "ssl_ca": "/etc/ca.pem",
        "connect_timeout": "3",
    }
    assert parse_option_file(TEXT, ["mysqld"]) == {"user": "mysql"}


def test_url_with_an_option_file(tmp_path) -> None:
    path = tmp_path / "my.cnf"
    path.write_text(TEXT)
    options = parse_url(f"mysql:///?option_file={path}", {"REPLICA_CLIENT_PASSWORD": "env"})
    assert (options.user, options.host, options.port) == ("repl", "db7", 3307)
    assert options.password == 'p#w\\d with "quotes"'
    assert options.tls.mode is TlsMode.VERIFY_CA
    assert options.connect_timeout == 3
    options = parse_url(f"mysql://bob:pw@h:1/?option_file={path}&tls=required", {})
    assert (options.user, options.password, options.host, options.port) == ("bob", "pw", "h", 1)
    assert options.tls.mode is TlsMode.REQUIRED


def test_a_fingerprint_and_who_may_have_the_password_from_an_option_file(tmp_path) -> None:
    path = tmp_path / "my.cnf"
    fingerprint = f"sha256:{'ab' * 32}"
    path.write_text(f"[client]\ntls-fingerprint={fingerprint}\nunverified_password=any\n")
    options = parse_url(f"mysql://u@h/?option_file={path}", {})
    assert options.tls.fingerprint == fingerprint
    assert options.unverified_password == "any"


def test_environment() -> None:
    assert parse_url("mysql://u@h/", {"MYSQL_PWD": "x"}).password == "x"
    both = {"MYSQL_PWD": "x", "REPLICA_CLIENT_PASSWORD": "y", "REPLICA_CLIENT_USER": "z"}
    assert from_environment(both) == {"user": "z", "password": "y"}
    options = parse_url("mysql://u:url@h/", both)
    assert (options.user, options.password) == ("u", "url")


def test_files_that_cannot_be_used(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"none\.cnf"):
        read_option_file(str(tmp_path / "none.cnf"))
    path = tmp_path / "my.cnf"
    path.write_text("[client]\nport=x\npassword=hunter2\n")
    with pytest.raises(ConfigError, match="port in the option file") as caught:
        parse_url(f"mysql:///?option_file={path}", {})
    assert "hunter2" not in str(caught.value)
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="chmod"):
        read_option_file(str(path))
