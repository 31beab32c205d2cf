"""Objects in S3, Google Cloud Storage and Azure Blob Storage: the one place that speaks to them.

The requests are obstore's, the Rust crate ``object_store`` in Python, which deltalake uses, too. Credentials
come from the environment (``AWS_ACCESS_KEY_ID`` …, ``GOOGLE_APPLICATION_CREDENTIALS``, ``AZURE_STORAGE_…``),
from the machine that this runs on, or from options of the same names.

All calls block; in asyncio they belong into a thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from replica_client.errors import (
    ConfigError,
    ObjectNotFoundError,
    StorageConflictError,
    StorageError,
    install_command,
)
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.location import ObjectUrl, storage_error

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Obstore

PART_SIZE: Final = 8 << 20
"""Bytes of a part of a large object."""

Found = TypeVar("Found")

Data = bytes | bytearray | memoryview
"""The data to write."""

_RETRY_SECONDS: Final = 30
_CUT_OFF: Final = "response body error"
_WAITS: Final = (0.05, 0.2, 0.8)
_WRITE: Final = "replicaclientwrite"  # Azure takes only letters


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """The version of an object's content, for :meth:`ObjectStore.replace` and for reads of one version."""

    e_tag: str | None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The data that a store lists of an object.

    Attributes:
        name: below the store's URL.
        size: in bytes.
        modified: time of its last change, in nanoseconds since 1970.
        version: of its content.
    """

    name: str
    size: int
    modified: int
    version: ObjectVersion


class ObjectStore:
    """The objects below a URL.

    Args:
        url: such as ``s3://bucket/backup``.
        options: of the store by the names of obstore and of the environment, in any case
            (``aws_access_key_id``, ``aws_endpoint_url``, ``allow_http`` …), where the environment does not say them.

    Names are relative to the URL; ``""`` is the object of the URL itself.

    Examples:
        >>> store = ObjectStore("s3://bucket/backup")
        >>> version = store.create("state.json", b"{}")
        >>> store.replace("state.json", b"[]", version)

    Raises:
        ConfigError: the URL or an option is wrong, or obstore is not installed.
    """

    def __init__(self, url: str | ObjectUrl, options: Mapping[str, str] | None = None) -> None:
        self.url = ObjectUrl.parse(url, options) if isinstance(url, str) else url
        self._store = _opened(self.url.scheme, self.url.authority, self.url.options)

    def __repr__(self) -> str:
        return f"ObjectStore({str(self.url)!r})"

    # Reading.

    def status(self, name: str = "") -> ObjectStatus:
        """Return an object's size, time and version.

        Raises:
            ObjectNotFoundError: there is none.
            StorageError: the store refuses, or cannot be reached.
        """
        import obstore

        with _errors("look at", self.url / name):
            return _again(lambda: self._status(obstore.head(self._store, self._key(name)), name))

    def get(self, name: str = "") -> tuple[bytes, ObjectVersion]:
        """Return the whole content of an object, and its version.

        Raises:
            ObjectNotFoundError: there is none.
            StorageError: as of :meth:`status`.
        """
        import obstore

        def get() -> tuple[bytes, ObjectVersion]:
            found = obstore.get(self._store, self._key(name))
            return bytes(found.bytes()), _version(found.meta)

        with _errors("read", self.url / name):
            return _again(get)

    def begin(self, name: str, size: int) -> tuple[memoryview, ObjectStatus]:
        """Read the first bytes of an object, fewer where it ends, and its status, in one request.

        Raises:
            ObjectNotFoundError: there is none.
            StorageError: as of :meth:`status`.
        """
        import obstore

        def read() -> tuple[memoryview, ObjectStatus]:
            found = obstore.get(self._store, self._key(name), options={"range": (0, size)})
            return memoryview(found.bytes()), self._status(found.meta, name)

        try:
            with _errors("read", self.url / name):
                return _again(read)
        except ObjectNotFoundError:
            raise
        except StorageError:
            status = self.status(name)
            if status.size:
                raise
            return memoryview(b""), status  # stores refuse a range of an empty object

    def read(
        self, name: str, start: int, size: int, version: ObjectVersion | None = None
    ) -> memoryview:
        """Read bytes of an object; fewer where it ends.

        Args:
            name: of the object.
            start: of the first byte, which must be in the object.
            size: how many, at least 1.
            version: that the object must have.

        Raises:
            StorageConflictError: it has another version.
            StorageError: as of :meth:`status`.
        """
        import obstore

        wanted: Any = {"range": (start, start + size)}
        if version is not None and version.e_tag is not None:
            wanted["if_match"] = version.e_tag
        with _errors("read", self.url / name):
            return _again(
                lambda: memoryview(
                    obstore.get(self._store, self._key(name), options=wanted).bytes()
                )
            )

    def objects(self, name: str = "") -> Iterator[ObjectStatus]:
        """Yield all objects below a name, at any depth, on most stores sorted by name.

        Raises:
            StorageError: as of :meth:`status`.
        """
        import obstore

        with _errors("list", self.url / name):
            for some in obstore.list(self._store, self._key(name) or None):
                for one in some:
                    yield self._status(one)

    def children(self, name: str = "") -> tuple[list[ObjectStatus], list[str]]:
        """Return the objects directly below a name, and the names that have others below them.

        Raises:
            StorageError: as of :meth:`status`.
        """
        import obstore

        with _errors("list", self.url / name):
            found = _again(
                lambda: obstore.list_with_delimiter(self._store, self._key(name) or None)
            )
            objects = [self._status(one) for one in found["objects"]]
            return objects, [self._name(prefix) for prefix in found["common_prefixes"]]

    # Writing.

    def put(self, name: str, data: Data) -> ObjectVersion:
        """Write an object, whatever was there; readers see the old one or the new one, whole.

        Raises:
            StorageError: as of :meth:`status`.
        """
        return self._put(name, data, "overwrite")

    def create(self, name: str, data: Data) -> ObjectVersion:
        """Write an object that must not be there.

        Only on a store of which :meth:`require_conditional_put` is sure.

        Raises:
            StorageConflictError: it is there.
            StorageError: as of :meth:`status`.
        """
        return self._put(name, data, "create")

    def replace(self, name: str, data: Data, version: ObjectVersion) -> ObjectVersion:
        """Write an object in the place of one whose version is known; as :meth:`create`.

        Raises:
            StorageConflictError: it has another version, or is gone.
            StorageError: as of :meth:`status`.
        """
        known = {"e_tag": version.e_tag, "version": version.version}
        return self._put(name, data, {key: one for key, one in known.items() if one is not None})

    def upload(self, name: str, content: IO[bytes] | Iterable[Data]) -> ObjectStatus:
        """Write a large object in parts that are sent at the same time; it is there when all are.

        Args:
            name: of the object.
            content: a file at its beginning, or pieces of bytes.

        Raises:
            StorageError: as of :meth:`status`. The earlier content is intact.
        """
        import obstore

        with _errors("write", self.url / name):
            obstore.put(
                self._store, self._key(name), content, chunk_size=PART_SIZE, max_concurrency=4
            )
        return self.status(name)

    def delete(self, *names: str) -> None:
        """Delete objects; one that is not there is none.

        Raises:
            StorageError: as of :meth:`status`.
        """
        import obstore

        for name in names:
            with suppress(ObjectNotFoundError), _errors("delete", self.url / name):
                obstore.delete(self._store, self._key(name))

    def require_conditional_put(self) -> None:
        """Check that the store honours the conditions of :meth:`create` and :meth:`replace`.

        Some stores that speak S3 ignore the conditions: two processes would overwrite each other's state
        without an error. A small object is written below the URL, and deleted.

        Raises:
            StorageError: the store ignores conditions.
        """
        if self.url in _CONDITIONAL:
            return
        name = f".replica-client-probe-{os.urandom(16).hex()}"
        version = self.create(name, b"1")
        try:
            ignored = self._ignored(name, version)
        finally:
            self.delete(name)
        if ignored:
            raise StorageError(
                f"{self.url}: this store ignores {ignored}: two processes could overwrite each other's state "
                "unseen; use a store with conditional writes (S3 itself has them), or a local path"
            )
        _CONDITIONAL.add(self.url)

    def _ignored(self, name: str, version: ObjectVersion) -> str:
        """Return the condition of a write that the store ignores, or ``""`` when it honours both."""
        try:
            self.create(name, b"2")
            return "If-None-Match"
        except StorageConflictError:
            pass
        try:
            # Ends of e_tags differ; what is quoted stays so.
            wrong = ObjectVersion('"00000000000000000000000000000000"', version.version)
            self.replace(name, b"3", wrong)
            return "If-Match"
        except StorageConflictError:
            return ""

    def _put(self, name: str, data: Data, mode: Any) -> ObjectVersion:
        import obstore

        # An answer may be lost, and the request sent again: then our own object is in the way.
        write = os.urandom(16).hex()
        try:
            with _errors("write", self.url / name):
                made = obstore.put(
                    self._store,
                    self._key(name),
                    data,
                    mode=mode,
                    use_multipart=False,
                    attributes={_WRITE: write},
                )
            return ObjectVersion(made["e_tag"], made["version"])
        except StorageConflictError:
            mine = self._written(name, write)
            if mine is None:
                raise
            return mine

    def _written(self, name: str, write: str) -> ObjectVersion | None:
        """Return the version of an object if the given write made it, else None."""
        import obstore

        try:
            with _errors("look at", self.url / name):
                found = obstore.get(self._store, self._key(name), options={"head": True})
        except ObjectNotFoundError:
            return None
        return _version(found.meta) if found.attributes.get(_WRITE) == write else None

    def _key(self, name: str) -> str:
        return (self.url / name).key

    def _name(self, key: str) -> str:
        return key[len(self.url.key) :].strip("/") if self.url.key else key

    def _status(self, meta: Any, name: str | None = None) -> ObjectStatus:
        modified = meta["last_modified"]
        seconds = int(modified.timestamp())
        return ObjectStatus(
            self._name(meta["path"]) if name is None else name,
            meta["size"],
            seconds * 1_000_000_000 + modified.microsecond * 1000,
            _version(meta),
        )


_CONNECTIONS: Final = frozenset(
    (
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only"),
        *("http2_only", "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle"),
        *("pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes"),
        *("randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent"),
    )
)  # fmt: skip
"""Options of connections, which obstore takes apart from those of a store; with or without the store's prefix."""

_CONDITIONAL: Final[set[ObjectUrl]] = set()


def _version(meta: Any) -> ObjectVersion:
    return ObjectVersion(meta["e_tag"], meta["version"])


@lru_cache(64)
def _opened(scheme: str, authority: str, options: tuple[tuple[str, str], ...]) -> Obstore:
    """Return the store of a bucket, with its connections."""
    try:
        from obstore.store import from_url
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "obstore":
            raise
        raise ConfigError(
            f"{scheme}:// needs the Python package obstore: {install_command('storage')}"
        ) from None
    given: dict[str, Any] = {}
    client: dict[str, Any] = {}
    for name, value in options:
        # obstore panics at an option of connections among those of the store.
        plain = name.lower().removeprefix("aws_").removeprefix("azure_").removeprefix("google_")
        into, key = (client, plain) if plain in _CONNECTIONS else (given, name.lower())
        into[key] = value
    retry: Any = {"max_retries": 8, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
    make: Any = from_url
    with _errors("open", ObjectUrl(scheme, authority, "", options)):
        store: Obstore = make(
            f"{scheme}://{authority}/",
            config=given or None,
            client_options=client or None,
            retry_config=retry,
        )
    return store


def _again(read: Callable[[], Found]) -> Found:
    """Send a read request and return its result; repeat a request whose answer was cut off, as obstore does not."""
    from obstore.exceptions import GenericError

    for wait in _WAITS:
        try:
            return read()
        except GenericError as error:
            if _CUT_OFF not in str(error):
                raise
            time.sleep(wait)
    return read()


@contextmanager
def _errors(what: str, url: ObjectUrl) -> Iterator[None]:
    """Translate errors of obstore into errors of this package."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise storage_error(what, url, error) from None
