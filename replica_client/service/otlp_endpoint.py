"""The OTLP collector's URL; this module does not import OpenTelemetry."""

from __future__ import annotations

import os
from importlib.util import find_spec
from urllib.parse import urlsplit

from replica_client.errors import ConfigError, install_command
from replica_client.service.configuration import DaemonConfig
from replica_client.service.external_values import resolve


def otlp_endpoint(config: DaemonConfig) -> str:
    """Return the URL of the collector.

    Raises:
        ConfigError: the URL is malformed, or the extra is not installed.
    """
    text = resolve("otlp", config.daemon.otlp, config.directory, os.environ)
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("otlp must be a URL, such as http://collector:4318")
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        raise ConfigError(f"otlp: OpenTelemetry is not installed: {install_command('otlp')}")
    return text
