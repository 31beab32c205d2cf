"""Conversion of operating system errors to errors of a sink."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from replica_client.errors import SinkError

_MAY_PASS = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EAGAIN, errno.ENOMEM),
        *(errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT, errno.EBUSY, errno.EINTR),
    )
)
_REMEDIES = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "raise the quota",
    errno.EROFS: "mount it for writing",
    errno.EACCES: "give this user the right to write there",
    errno.EPERM: "give this user the right to write there",
    errno.EMFILE: "raise the limit of open files",
    errno.EPIPE: "the reader of standard output has gone; start both again",
}


@contextmanager
def os_errors(what: str) -> Iterator[None]:
    """Raise errors of the operating system in the block as ``SinkError``.

    Args:
        what: what is being written, for the message.

    Raises:
        SinkError: retriable if the state of the machine may change, such as a full or read-only
            disk.
    """
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        text = f"{what}: {error.strerror or error}"
        remedy = _REMEDIES.get(number)
        if remedy:
            text += f"; {remedy}"
        raise SinkError(text, retriable=number in _MAY_PASS) from error
