"""An Iceberg REST catalogue over pyiceberg's SQL catalogue, as far as the lake needs one."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.table import CommitTableRequest

_STATUS = {
    NoSuchTableError: 404, NoSuchNamespaceError: 404, NamespaceAlreadyExistsError: 409, CommitFailedException: 409,
}  # fmt: skip


class _Name:
    """What `commit_table` asks of a table that may not be there yet."""

    def __init__(self, name: tuple[str, ...]) -> None:
        self._name = name

    def name(self) -> tuple[str, ...]:
        return self._name


def _answer(catalog: Catalog, method: str, words: list[str], body: bytes) -> dict[str, Any]:
    match method, words:
        case "GET", ["config"]:
            return {"defaults": {}, "overrides": {}}
        case "GET", ["namespaces"]:
            return {"namespaces": [list(one) for one in catalog.list_namespaces()]}
        case "POST", ["namespaces"]:
            catalog.create_namespace(tuple(json.loads(body)["namespace"]))
            return {}
        case "GET", ["namespaces", name]:
            return {"namespace": [name], "properties": catalog.load_namespace_properties(name)}
        case "GET", ["namespaces", name, "tables"]:
            found = catalog.list_tables(name)
            return {
                "identifiers": [{"namespace": list(one[:-1]), "name": one[-1]} for one in found]
            }
        case "POST", ["namespaces", name, "tables"]:
            asked = CreateTableRequest.model_validate_json(body)
            table = catalog._create_staged_table(  # type: ignore[attr-defined]
                (name, asked.name), asked.table_schema, asked.location,
                asked.partition_spec, asked.write_order, asked.properties,
            )  # fmt: skip
            return {"metadata": json.loads(table.metadata.model_dump_json()), "config": {}}
        case "DELETE", ["namespaces", name, "tables", one]:
            catalog.drop_table((name, one))
            return {}
        case "GET", ["namespaces", name, "tables", one]:
            table = catalog.load_table((name, one))
            where = {"metadata-location": table.metadata_location, "config": {}}
            return {**where, "metadata": json.loads(table.metadata.model_dump_json())}
        case "POST", ["namespaces", name, "tables", one]:
            asked = CommitTableRequest.model_validate_json(body)
            found = catalog.commit_table(_Name((name, one)), asked.requirements, asked.updates)  # type: ignore[arg-type]
            where = {"metadata-location": found.metadata_location}
            return {**where, "metadata": json.loads(found.metadata.model_dump_json())}
    raise NotImplementedError(method, words)


@contextmanager
def rest_catalog(catalog: Catalog) -> Iterator[str]:
    """Serve a catalogue on this machine; give the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            words = [unquote(one) for one in self.path.partition("?")[0].strip("/").split("/")[1:]]
            try:
                status, found = 200, _answer(catalog, self.command, words, body)
            except Exception as error:
                status = _STATUS.get(type(error), 500)
                text = {"message": str(error), "type": type(error).__name__, "code": status}
                found = {"error": text}
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _take

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
