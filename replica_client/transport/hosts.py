"""URLs with several hosts: one source and the replicas that may take its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica_client.errors import ConfigError
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.url import parse_url


def split_hosts(url: str) -> list[str]:
    """Split ``mysql://u:p@h1,h2:3307/`` into one URL for each host.

    Raises:
        ConfigError: a host between commas is empty.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return [url]
    end = min((rest.find(sign) for sign in "/?#" if sign in rest), default=len(rest))
    credentials, at, hosts = rest[:end].rpartition("@")
    names = hosts.split(",")
    if len(names) > 1 and not all(names):
        raise ConfigError("the URL has an empty host in its list: write host1,host2:3307")
    return [f"{scheme}://{credentials}{at}{name}{rest[end:]}" for name in names]


def parse_hosts(
    source: str | ConnectOptions | Sequence[str | ConnectOptions],
    environment: Mapping[str, str] | None = None,
) -> list[ConnectOptions]:
    """Return the hosts of a URL, of several URLs, or of options, in order.

    Raises:
        ConfigError: a URL is invalid, or there is no host.
    """
    if isinstance(source, ConnectOptions):
        return [source]
    if isinstance(source, str):
        return [parse_url(url, environment) for url in split_hosts(source)]
    if not isinstance(source, Sequence):
        raise ConfigError(
            f"a source is a URL such as mysql://user@host/, or a list of them, not {type(source).__name__}"
        )
    hosts = [host for one in source for host in parse_hosts(one, environment)]
    if not hosts:
        raise ConfigError("no source is given: the list of hosts is empty")
    return hosts
