"""Lists of hosts in a URL."""

from __future__ import annotations

import pytest

from replica_client.errors import ConfigError
from replica_client.stream.transport.connect_options import parse_hosts, split_hosts


def test_several_hosts_share_all_but_the_position() -> None:
    hosts = parse_hosts("mysql://u:p%2Cq@h1,h2:3307,[::1]:3308/?compression=zstd", {})
    assert [(host.host, host.port) for host in hosts] == [("h1", 3306), ("h2", 3307), ("::1", 3308)]
    assert {(host.user, host.password, host.compression) for host in hosts} == {
        ("u", "p,q", "zstd")
    }


def test_a_list_of_urls() -> None:
    hosts = parse_hosts(["mysql://u@h1/", "mysql://v@h2,h3/"], {})
    assert [(host.user, host.host) for host in hosts] == [("u", "h1"), ("v", "h2"), ("v", "h3")]


def test_commas_elsewhere_do_not_count() -> None:
    assert split_hosts("mysql://u:a,b@h1/?tls_ca=/a,b") == ["mysql://u:a,b@h1/?tls_ca=/a,b"]


@pytest.mark.parametrize("url", ["mysql://u@h1,,h2/", "mysql://u@,h2/", "mysql://u@h1,/"])
def test_empty_host_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="empty host"):
        parse_hosts(url, {})


def test_no_host_is_refused() -> None:
    with pytest.raises(ConfigError, match="no source"):
        parse_hosts([])
