"""The place of a file, on disk or in an object store, and the errors of stores.

Answers quote the request: the key's id, a signature, a token in the query of a URL. Messages hold
only the status, the store's code and its message, without anything that is a secret here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from replica_client.errors import (
    ConfigError,
    ObjectNotFoundError,
    StorageConflictError,
    StorageError,
)
from replica_client.protocol.codec.quick_dataclass import dataclass

SCHEMES: Final = {"s3": "s3", "s3a": "s3", "gs": "gs", "abfss": "abfss"}
"""Schemes of object stores, and what each is called here: Hadoop's ``s3a`` is S3."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# What is left of a URL that was made a Path.
_FLAT: Final = re.compile(r"(s3[an]?|gs|abfss?|wasbs?|hdfs|https?|ftp):/[^/]")
# How Hadoop writes a path of this machine, and Spark that of a table.
_HADOOP: Final = re.compile(r"file:/(?!/)")
_KNOWN: Final = "give a local path, s3://, gs:// or abfss://"


@dataclass(frozen=True, slots=True)
class ObjectUrl:
    """The URL of an object, or of all objects below a name.

    Attributes:
        scheme: ``s3``, ``gs`` or ``abfss``.
        authority: the bucket; of ``abfss`` the container, ``@`` and the account's host.
        key: the name in the bucket, without a slash at its beginning or end.
        options: of the store, such as credentials; see
            :class:`~replica_client.storage.object_store.ObjectStore`. Never shown.
    """

    scheme: str
    authority: str
    key: str = ""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, text: str, options: Mapping[str, str] | None = None) -> ObjectUrl:
        """Parse the URL that a user gave.

        Raises:
            ConfigError: the scheme is not known, there is no bucket, or a secret is in it.
        """
        match = _URL.fullmatch(text)
        if match is None:
            raise ConfigError(f"{text}: no URL; {_KNOWN}")
        scheme = SCHEMES.get(match[1].lower())
        if scheme is None:
            raise ConfigError(f"{match[1]}:// is not supported; {_KNOWN}")
        authority, _, key = match[2].partition("/")
        parts = [part for part in key.split("/") if part]
        if any(part in (".", "..") for part in parts):
            raise ConfigError(f"{scheme}://…: a URL has no parts . and ..; write the whole name")
        user, at, _ = authority.partition("@")
        if at and (scheme != "abfss" or ":" in user):
            raise ConfigError(
                f"{scheme}://…: the URL of an object store has no user or password; "
                "credentials come from the environment"
            )
        if not authority or (scheme == "abfss" and not (at and user)):
            wanted = "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/NAME"
            wanted = wanted if scheme == "abfss" else f"{scheme}://BUCKET/NAME"
            raise ConfigError(f"{text}: no bucket is named; write {wanted}")
        return cls(scheme, authority, "/".join(parts), tuple(sorted((options or {}).items())))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}/{self.key}"

    def __truediv__(self, name: str) -> ObjectUrl:
        """Return the object with a name below this one."""
        return replace(self, key="/".join(part for part in (self.key, name.strip("/")) if part))

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> ObjectUrl:
        """The URL without the last part of the key; the bucket where there is one part."""
        return replace(self, key=self.key.rpartition("/")[0])


Location = Path | ObjectUrl
"""A file or a directory, here or in a store."""


def is_url(text: object) -> bool:
    """Return whether a text is a URL and no path."""
    return isinstance(text, str) and _URL.fullmatch(text) is not None


def location(
    where: str | os.PathLike[str] | ObjectUrl, options: Mapping[str, str] | None = None
) -> Location:
    """Return the location that a user gave as a path or URL.

    Args:
        where: a path, ``file://`` with one, or the URL of an object.
        options: of the object store.

    Raises:
        ConfigError: the scheme is not supported, or the URL is wrong.
    """
    if isinstance(where, ObjectUrl):
        return where
    if not isinstance(where, str):
        path = Path(where)
        if _FLAT.match(str(path)):
            raise ConfigError(f"{path}: a URL is given as text (str), not as a Path")
        return path
    if _HADOOP.match(where):
        where = f"file://{where[len('file:') :]}"
    match = _URL.fullmatch(where)
    if match is None:
        return Path(where)
    if match[1].lower() == "file":
        return _of_file_url(where)
    return ObjectUrl.parse(where, options)


def local_path(where: str | os.PathLike[str] | ObjectUrl, what: str) -> Path:
    """Return a path that must be on this machine.

    Args:
        where: as the user gave it.
        what: the purpose of the path, for the message.

    Raises:
        ConfigError: it is a URL of something else, or no path.
    """
    if not isinstance(where, (str, os.PathLike, ObjectUrl)):
        raise ConfigError(f"{what}: give a path, not {type(where).__name__}")
    match = None if isinstance(where, ObjectUrl) else _URL.fullmatch(str(where))
    scheme = where.scheme if isinstance(where, ObjectUrl) else match and match[1].lower()
    if scheme and scheme != "file":
        raise ConfigError(f"{what}: {scheme}:// is not supported here; give a local path")
    found = location(where)
    assert isinstance(found, Path)
    return found


def _of_file_url(text: str) -> Path:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise ConfigError(f"{text}: write file:///DIRECTORY/NAME")
    return Path(unquote(parts.path))


_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,80})</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,300})")
_STATUS: Final = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_QUERY: Final = re.compile(r"(https?://[^\s?]*)\?\S*")
_USER: Final = re.compile(r"(https?://)[^\s/@]*@")
_LONGEST: Final = 300
# deltalake writes its chain of causes with an arrow in colour before each.
_ARROW: Final = "\u21b3"
_CONTROL: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x1f\x7f]+")
_CONFLICTS: Final = ("AlreadyExistsError", "PreconditionError")
# AWS: the object was written at the same time.
_CONFLICT_CODES: Final = ("ConditionalRequestConflict",)
_SECRET_NAMES: Final = ("key", "secret", "token", "password", "sas", "credential")
_ENVIRONMENTS: Final = ("AWS_", "GOOGLE_", "AZURE_")
_METADATA_HOSTS: Final = ("169.254.169.254", "metadata.google.internal")
_CREDENTIALS: Final = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS",
    "abfss": "set AZURE_STORAGE_ACCOUNT_KEY",
}


def storage_error(what: str, url: ObjectUrl, error: Exception) -> StorageError:
    """Return the error of this package for an error of obstore.

    Args:
        what: was tried, such as ``read``.
        url: of the object.
        error: of obstore.

    Raises:
        ConfigError: an option of the store is not known.
    """
    if isinstance(error, StorageError):
        return error
    text, kind = str(error), type(error).__name__
    code = found[1] if (found := _CODE.search(text)) else ""
    if kind == "UnknownConfigurationKeyError":
        raise ConfigError(f"{url.scheme}://: {_plain(text, url)}") from None
    if kind in _CONFLICTS or code in _CONFLICT_CODES:
        return StorageConflictError(
            f"cannot {what} {url}: another process wrote it, or it is not the object that was read before"
        )
    if code == "NoSuchBucket":
        return StorageError(f"cannot {what} {url}: there is no bucket {url.authority}")
    if isinstance(error, FileNotFoundError):
        return ObjectNotFoundError(f"{url}: no such object")
    if any(host in text for host in _METADATA_HOSTS):
        return StorageError(f"cannot {what} {url}: no credentials; {_CREDENTIALS[url.scheme]}")
    status = found[1].strip() if (found := _STATUS.search(text)) else ""
    message = found[1].strip() if (found := _MESSAGE.search(text)) else ""
    if status or code:
        said = ", ".join(part for part in (status, code) if part)
        return StorageError(
            f"cannot {what} {url}: {said}" + (f" ({_plain(message, url)})" if message else "")
        )
    return StorageError(f"cannot {what} {url}: {_plain(text, url)}")


def reason_of(error: BaseException, where: Location) -> str:
    """Return a library's error about files or tables in one line, without secrets and colours.

    Args:
        error: of the operating system, pyarrow, deltalake or this package.
        where: the file, or the directory of the table.
    """
    text = getattr(error, "strerror", None) or str(error)
    if isinstance(error, StorageError):
        return " ".join(text.split())  # it was made so
    if code := _CODE.search(text):
        said = [found[1].strip() for one in (_STATUS, _MESSAGE) if (found := one.search(text))]
        text = ", ".join((code[1], *said))
    text = ": ".join(one.strip() for one in _CONTROL.sub(" ", text).split(_ARROW))
    text = " ".join(text.split())
    return _without_secrets(text, where)[:_LONGEST]


def _plain(text: str, url: ObjectUrl) -> str:
    """Return the first line of a text, without secrets."""
    return _without_secrets(text.partition("\n")[0].strip(), url)[:_LONGEST]


def _without_secrets(line: str, where: Location) -> str:
    line = _USER.sub(r"\1", _QUERY.sub(r"\1", line))
    if isinstance(where, ObjectUrl):
        for secret in _secrets(where):
            line = line.replace(secret, "…")
    return line


def _secrets(url: ObjectUrl) -> list[str]:
    """Return the values of options and environment variables that may be secret."""
    given = [*url.options, *os.environ.items()]
    return [
        value
        for name, value in given
        if len(value) > 3
        and any(word in name.lower() for word in _SECRET_NAMES)
        and ((name, value) in url.options or name.startswith(_ENVIRONMENTS))
    ]
