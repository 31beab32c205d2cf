"""Names of topics from templates, in the characters that Kafka allows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from replica_client.codec.sized_cache import SizedCache
from replica_client.errors import ConfigError

if TYPE_CHECKING:
    from replica_client.sinks.formats.message import MessageKind
    from replica_client.sinks.kafka.kafka_options import KafkaOptions

_MAX: Final = 249
_KEPT: Final = 4096
_OTHER: Final = re.compile(r"[^A-Za-z0-9._-]")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_KNOWN: Final = {
    "topic": ("prefix", "database", "table"),
    "schema_topic": ("prefix", "database", "table"),
    "transaction_topic": ("prefix",),
    "position_topic": ("prefix",),
    "transactional_id": ("prefix",),
}


def check_topics(options: KafkaOptions) -> None:
    """Check the templates for unknown placeholders and for characters that no topic may have.

    Raises:
        ConfigError: a template is wrong; the message names it.
    """
    for option, known in _KNOWN.items():
        template: str = getattr(options, option)
        for name in _PLACEHOLDER.findall(template):
            if name not in known:
                wanted = ", ".join(f"{{{one}}}" for one in known)
                raise ConfigError(f"sink kafka: {option}: {{{name}}} is none of {wanted}")
    if not options.topic:
        raise ConfigError("sink kafka: topic: a name is wanted")
    for option in ("topic_prefix", "topic", "schema_topic", "transaction_topic", "position_topic"):
        text = _PLACEHOLDER.sub("", getattr(options, option))
        if _OTHER.search(text):
            raise ConfigError(
                f"sink kafka: {option}: letters, digits, '.', '_' and '-' are wanted, not {text!r}"
            )


class TopicNames:
    """Chooses the topic of each message.

    Characters of table names that no topic may have become ``_``. Such a name also gets a digest as
    suffix, so that two tables do not share a topic.

    Args:
        options: the templates.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._routed: SizedCache[str, str] = SizedCache(_KEPT)
        self._known: dict[tuple[MessageKind, str, str], str] = {}

    def of(self, kind: MessageKind, database: str, table: str) -> str:
        """Return the topic of a message; ``""`` for none."""
        name = self._known.get((kind, database, table))
        if name is None:
            name = self._known[kind, database, table] = self._made(kind, database, table)
        return name

    def routed(self, name: str) -> str:
        """Return the topic of a message that names its destination."""
        topic = self._routed.get(name)
        if topic is None:
            topic = _OTHER.sub("_", name) or "_"
            if topic != name or len(topic) > _MAX:
                topic = _with_digest(topic, [name])
            self._routed.put(name, topic, len(name))
        return topic

    def _made(self, kind: MessageKind, database: str, table: str) -> str:
        options = self._options
        if kind == "transaction":
            return options.named(options.transaction_topic)
        template = options.topic if kind == "row" else options.schema_topic
        values = {"prefix": options.topic_prefix, "database": database, "table": table}
        text = _PLACEHOLDER.sub(lambda match: values[match[1]], template)
        used = [values[name] for name in _PLACEHOLDER.findall(template) if name != "prefix"]
        name = _OTHER.sub("_", text)
        # A name with a point is ambiguous: `a.b` and `c` would have the same topic as `a` and
        # `b.c`.
        if name != text or len(name) > _MAX or any("." in one for one in used):
            name = _with_digest(name, used)
        return name


def _with_digest(name: str, used: Sequence[str]) -> str:
    digest = sha256("\0".join(used).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{name[: _MAX - 17]}-{digest}"
