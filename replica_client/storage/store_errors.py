"""Answers of an object store as messages, in one line and without secrets.

Answers quote the request: the key's id, a signature, a token in the query of a URL. Messages hold
only the status, the store's code and its message, without anything that is a secret here.
"""

from __future__ import annotations

import os
import re
from typing import Final

from replica_client.errors import (
    ConfigError,
    ObjectNotFoundError,
    StorageConflictError,
    StorageError,
)
from replica_client.storage.location import Location, ObjectUrl

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
