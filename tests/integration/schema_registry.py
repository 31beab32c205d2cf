"""A schema registry for tests: the REST protocol of Confluent's, with its rules of versions, ids and compatibility.

Schemas of Avro; everything is in memory. What it says of compatibility is Apache Avro's own checker's.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import avro.constants
import avro.errors
import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

_TYPE = "application/vnd.schemaregistry.v1+json"
_LEVELS = ("NONE", "BACKWARD", "FORWARD", "FULL")
LEVELS = (*_LEVELS, *(f"{one}_TRANSITIVE" for one in _LEVELS[1:]))


class RegistryError(Exception):
    """What is answered: a status of HTTP, a code of the registry and a text."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status, self.code = status, code


class SchemaRegistry:
    """A registry on a free port of loopback.

    Args:
        user: ``name:password`` that requests must have; None: all may.

    Attributes:
        url: where it is.
        requests: method and path of each request.
        down: answers 503 while it is set.
    """

    def __init__(self, user: str | None = None) -> None:
        self.requests: list[str] = []
        self.down = False
        self._user = user
        self._lock = threading.Lock()
        self._ids: dict[str, int] = {}
        self._schemas: dict[int, str] = {}
        self._subjects: dict[str, list[int]] = {}
        self._levels: dict[str, str] = {"": "BACKWARD"}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(self) -> None:
                registry._handle(self)

            do_GET = do_POST = do_PUT = handle_request

            def log_message(self, *given: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def subjects(self) -> dict[str, list[Any]]:
        """The schemas of each subject, in the order of their versions."""
        with self._lock:
            return {
                name: [json.loads(self._schemas[one]) for one in ids]
                for name, ids in self._subjects.items()
            }

    def schema(self, number: int) -> Any:
        """The schema of an id."""
        return json.loads(self._schemas[number])

    def set_level(self, level: str, subject: str = "") -> None:
        """The level of compatibility of a subject, ``""`` for all that have none of their own."""
        assert level in LEVELS
        self._levels[subject] = level

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        body = json.loads(request.rfile.read(length)) if length else {}
        path = urlsplit(request.path).path
        try:
            with self._lock:
                self.requests.append(f"{request.command} {path}")
                status, answer = 200, self._answer(request, path, body)
        except RegistryError as error:
            status, answer = error.status, {"error_code": error.code, "message": str(error)}
        data = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", _TYPE)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def _answer(self, request: BaseHTTPRequestHandler, path: str, body: dict[str, Any]) -> Any:
        if self.down:
            raise RegistryError(503, 50301, "down for a while")
        given = request.headers.get("Authorization", "").removeprefix("Basic ")
        if self._user is not None and base64.b64decode(given).decode() != self._user:
            raise RegistryError(401, 40101, "Unauthorized")
        for method, pattern, call in self._routes():
            found = re.fullmatch(pattern, path)
            if found is not None and method == request.command:
                return call(*map(unquote, found.groups()), body)
        raise RegistryError(404, 404, f"HTTP 404 Not Found: {request.command} {path}")

    def _routes(self) -> list[tuple[str, str, Callable[..., Any]]]:
        subject, version = "/subjects/([^/]+)", "/versions/([^/]+)"
        return [
            ("GET", "/subjects", lambda _: sorted(self._subjects)),
            ("GET", f"{subject}/versions", lambda name, _: self._versions(name)),
            ("GET", f"{subject}{version}", lambda name, at, _: self._version(name, at)),
            ("POST", f"{subject}/versions", self._register),
            ("POST", subject, self._look_up),
            ("GET", r"/schemas/ids/(\d+)", lambda number, _: {"schema": self._by_id(int(number))}),
            ("GET", "/schemas/types", lambda _: ["AVRO"]),
            ("GET", "/config", lambda _: {"compatibilityLevel": self._levels[""]}),
            ("PUT", "/config", lambda body: self._set("", body)),
            ("GET", "/config/([^/]+)", lambda name, _: {"compatibilityLevel": self._level(name)}),
            ("PUT", "/config/([^/]+)", self._set),
            ("POST", f"/compatibility{subject}{version}", self._compatible),
        ]

    def _versions(self, subject: str) -> list[int]:
        if subject not in self._subjects:
            raise RegistryError(404, 40401, f"Subject '{subject}' not found.")
        return list(range(1, len(self._subjects[subject]) + 1))

    def _version(self, subject: str, at: str) -> dict[str, Any]:
        versions = self._versions(subject)
        number = versions[-1] if at == "latest" else int(at)
        if number not in versions:
            raise RegistryError(404, 40402, f"Version {at} not found.")
        return self._described(subject, number)

    def _described(self, subject: str, version: int) -> dict[str, Any]:
        number = self._subjects[subject][version - 1]
        members = {"subject": subject, "version": version, "id": number}
        return {**members, "schema": self._schemas[number]}

    def _by_id(self, number: int) -> str:
        if number not in self._schemas:
            raise RegistryError(404, 40403, f"Schema {number} not found")
        return self._schemas[number]

    def _level(self, subject: str) -> str:
        return self._levels.get(subject, self._levels[""])

    def _set(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        level = body.get("compatibility")
        if level not in LEVELS:
            raise RegistryError(422, 42203, f"Invalid compatibility level {level}")
        self._levels[subject] = level
        return {"compatibility": level}

    def _register(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        text, key = _read(body)
        number = self._ids.get(key)
        ids = self._subjects.get(subject, [])
        if number is None or number not in ids:
            faults = self._faults(text, ids, self._level(subject))
            if faults:
                raise RegistryError(
                    409,
                    409,
                    f"Schema being registered is incompatible with an earlier schema for subject "
                    f'"{subject}", details: [{"; ".join(faults)}]',
                )
        if number is None:
            number = self._ids[key] = len(self._ids) + 1
            self._schemas[number] = text
        if number not in ids:
            self._subjects.setdefault(subject, []).append(number)
        return {"id": number}

    def _look_up(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        _, key = _read(body)
        self._versions(subject)
        number = self._ids.get(key)
        if number not in self._subjects[subject]:
            raise RegistryError(404, 40403, "Schema not found")
        return self._described(subject, self._subjects[subject].index(number) + 1)

    def _compatible(self, subject: str, at: str, body: dict[str, Any]) -> dict[str, Any]:
        text, _ = _read(body)
        number = self._version(subject, at)["id"]
        level = self._level(subject).removesuffix("_TRANSITIVE")
        return {"is_compatible": not self._faults(text, [number], level)}

    def _faults(self, text: str, ids: list[int], level: str) -> list[str]:
        """Why a schema does not go with the earlier ones, or the last of them."""
        if level == "NONE":
            return []
        new, found = avro.schema.parse(text), []
        for number in ids if level.endswith("_TRANSITIVE") else ids[-1:]:
            old = avro.schema.parse(self._schemas[number])
            if not level.startswith("FORWARD"):
                found += _reading(new, old)
            if not level.startswith("BACKWARD"):
                found += _reading(old, new)
        return found


def _reading(reader: avro.schema.Schema, writer: avro.schema.Schema) -> list[str]:
    result = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)
    if result.compatibility is SchemaCompatibilityType.compatible:
        return []
    return sorted(result.messages) or ["incompatible"]


def _read(body: dict[str, Any]) -> tuple[str, str]:
    """A schema's text, and what is the same for schemas that are the same."""
    if body.get("schemaType", "AVRO") != "AVRO":
        raise RegistryError(422, 42201, f"Invalid schema type {body['schemaType']}")
    try:
        text = str(body["schema"])
        avro.schema.parse(text)
    except (KeyError, avro.errors.AvroException) as error:
        raise RegistryError(422, 42201, f"Invalid schema: {error}") from None
    return text, json.dumps(normal(json.loads(text)), sort_keys=True)


def normal(schema: Any, namespace: str = "") -> Any:
    """A schema in one form: full names, plain types as texts."""
    if isinstance(schema, list):
        return [normal(one, namespace) for one in schema]
    if isinstance(schema, str):
        plain = schema in avro.constants.PRIMITIVE_TYPES or "." in schema or not namespace
        return schema if plain else f"{namespace}.{schema}"
    if schema.keys() == {"type"}:
        return normal(schema["type"], namespace)
    found = dict(schema)
    if schema["type"] == "record":
        namespace = found.pop("namespace", namespace)
        name = found["name"]
        found["name"] = name if "." in name or not namespace else f"{namespace}.{name}"
        namespace = found["name"].rpartition(".")[0]
        found["fields"] = [
            {**field, "type": normal(field["type"], namespace)} for field in schema["fields"]
        ]
    elif schema["type"] == "array":
        found["items"] = normal(schema["items"], namespace)
    else:
        found["type"] = normal(schema["type"], namespace)
    return found
