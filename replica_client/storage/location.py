"""The place of a file: a path on this machine, or the URL of an object in a store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from replica_client.errors import ConfigError
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
