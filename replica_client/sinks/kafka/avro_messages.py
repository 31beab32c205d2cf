"""Messages as Avro in Confluent's wire format: a zero byte, four bytes of schema id, the value.

Schemas are those of Debezium's connector with Confluent's AvroConverter. Subjects are ``TOPIC-key``
and ``TOPIC-value``; a table that was altered registers a new version, which the registry checks for
compatibility. A message without a schema (of an outbox) is an Avro string, as Debezium's outbox
router writes it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple

import httpx
import msgspec
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from fastavro import parse_schema
from fastavro.validation import ValidationError, validate

from replica_client.errors import SinkError
from replica_client.sinks.bounded_http import BoundedTransport, trusting
from replica_client.sinks.formats.avro import (
    AbsentFieldError,
    AvroReader,
    AvroType,
    avro_reader,
    avro_schema,
)
from replica_client.sinks.formats.message import Message, unwritable
from replica_client.sinks.kafka.kafka_options import RegistryOptions, registry_properties

_STRING: Final = "string"
_ANSWER_SIZE: Final = 16 << 20
"""Maximum bytes of an answer of the registry."""
_RETRIABLE: Final = frozenset((408, 429))


class _Writer(NamedTuple):
    serializer: AvroSerializer
    schema: AvroType
    read: AvroReader | None
    context: SerializationContext
    is_json: bool


class _BoundedSession:
    """An HTTP session for the registry's client, with bounds for answers.

    The client's own session has none.

    Args:
        own: the client's session, of httpx or of its successor.
        options: options of the registry.
    """

    def __init__(self, own: Any, options: RegistryOptions) -> None:
        self._module = importlib.import_module(type(own).__module__.partition(".")[0])
        ca = options.ca
        transport = BoundedTransport(
            seconds=options.timeout,
            limit=_ANSWER_SIZE,
            verify=trusting(ca, "sink kafka: registry: ca") if ca else True,
        )
        given = (options.username, options.password)
        self._client = httpx.Client(transport=transport, auth=given if any(given) else None)

    def request(self, method: str, **given: Any) -> Any:
        """Send a request.

        Answers and errors are objects of the HTTP module that the registry's client uses.
        """
        try:
            answer = self._client.request(method, **given)
        except httpx.TransportError as error:
            kind = getattr(self._module, type(error).__name__, self._module.TransportError)
            raise kind(str(error)) from None
        return self._module.Response(
            answer.status_code, headers=list(answer.headers.items()), content=answer.content
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class AvroMessages:
    """Encodes messages as Avro. The methods block and must be called from one thread.

    Args:
        options: of the registry.
    """

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._where = f"schema registry at {options.where()}"
        self._client: SchemaRegistryClient | None = None
        self._writers: dict[tuple[str, str, str], _Writer] = {}

    def probe(self) -> None:
        """Ask the registry for its compatibility level, to check that it answers.

        Raises:
            SinkError: the registry is unavailable, or refuses.
        """
        with self._errors():
            self._connected().get_compatibility()

    def key(self, topic: str, message: Message, key: str | None) -> bytes | None:
        """Return a key of a message as Avro: its own key, or the key in ``gone``.

        Raises:
            SinkError: the registry is unavailable, or refuses the schema.
            PoisonChangeError: the key can never be written.
        """
        if key is None:
            return None
        return self._bytes(topic, "key", message.schemas[0], message, key)

    def value(self, topic: str, message: Message) -> bytes:
        """Return the value of a message as Avro. Raises the errors of :meth:`key`."""
        return self._bytes(topic, "value", message.schemas[1], message, message.value)

    def close(self) -> None:
        """Close the connection to the registry."""
        client, self._client = self._client, None
        self._writers.clear()
        if client is not None:
            client.close()

    def _bytes(
        self,
        topic: str,
        field: Literal["key", "value"],
        schema: str,
        message: Message,
        text: str,
    ) -> bytes:
        writer = self._writers.get((topic, field, schema))
        if writer is None:
            writer = self._writers[topic, field, schema] = self._made(topic, field, schema)
        value: Any = text
        try:
            if writer.is_json:
                value = msgspec.json.decode(value)
            if writer.read is not None:
                value = writer.read(value)
            with self._errors():
                found = writer.serializer(value, writer.context)
        except AbsentFieldError as error:
            raise unwritable(
                message,
                f"{message.database}.{message.table}: the row image has no column {error.field}, and Avro's records "
                "have all: set binlog_row_image=FULL on the source, or drop the column in the transforms",
            ) from None
        except (ValueError, TypeError, OverflowError) as error:
            # The error's text may contain the value.
            why = _faulty_fields(value, writer.schema) or type(error).__name__
            raise unwritable(
                message,
                f"{message.database}.{message.table}: the {field} cannot be written as Avro: {why}",
            ) from None
        assert found is not None
        return bytes(found)

    def _made(self, topic: str, field: Literal["key", "value"], schema: str) -> _Writer:
        """Register a schema, or look it up, and return its writer."""
        connect = json.loads(schema) if schema else {"type": _STRING, "optional": False}
        schema_of_avro = avro_schema(connect)
        if isinstance(schema_of_avro, str):
            schema_of_avro = {"type": schema_of_avro}  # the serializer needs an object
        text = json.dumps(schema_of_avro, ensure_ascii=False)
        client, registers = self._connected(), self._options.register
        subject, described = f"{topic}-{field}", Schema(text, "AVRO")
        with self._errors(subject):
            if registers:
                client.register_schema(subject, described)
            else:
                client.lookup_schema(subject, described)
            serializer = AvroSerializer(
                client,
                described,
                conf={"auto.register.schemas": registers, "subject.name.strategy.type": "TOPIC"},
            )
        context = SerializationContext(topic, MessageField(field))
        return _Writer(serializer, schema_of_avro, avro_reader(connect), context, bool(schema))

    def _connected(self) -> SchemaRegistryClient:
        if self._client is None:
            with self._errors():
                client = SchemaRegistryClient(registry_properties(self._options))
                rest: Any = client._rest_client
                own, rest.session = rest.session, _BoundedSession(rest.session, self._options)
                own.close()
                self._client = client
        return self._client

    @contextmanager
    def _errors(self, subject: str = "") -> Iterator[None]:
        """Raise errors of the registry in the block as ``SinkError``."""
        of = f": subject {subject}" if subject else ""
        try:
            yield
        except SchemaRegistryError as error:
            status = error.http_status_code
            retriable = status >= 500 or status in _RETRIABLE
            why = f"{error.error_message} (HTTP {status}, code {error.error_code})"[:500]
            if status == 404 and not self._options.register:
                why = f"the schema is not registered, and registry.register is off: {why}"
            elif status == 409:
                why = f"the table's new schema is not compatible with the registered ones: {why}"
            raise SinkError(f"{self._where}{of}: {why}", retriable=retriable) from None
        except (ValueError, TypeError, OverflowError):
            raise
        except Exception as error:  # noqa: BLE001 of the client's HTTP library, which is one of two
            raise SinkError(
                f"{self._where}{of}: {type(error).__name__}: {error}"[:500], retriable=True
            ) from None


def _faulty_fields(value: Any, schema: AvroType) -> str:
    """Return a text with the fields whose values the schema does not allow; ``""`` for none."""
    try:
        validate(value, parse_schema(schema))
    except ValidationError as error:
        return "fields " + ", ".join(sorted({str(one.field) for one in error.errors}))
    except (ValueError, TypeError, OverflowError):
        pass
    return ""
