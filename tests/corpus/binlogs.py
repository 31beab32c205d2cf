"""The binlog files of the corpus beside the repository, and which of them are broken on purpose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replica_client.errors import (
    BinlogDecodeError,
    BinlogFormatError,
    ChecksumMismatchError,
    EncryptedBinlogError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.event import ENCRYPTED_MAGIC, MAGIC

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"

BROKEN: dict[str, list[tuple[int, type[BinlogDecodeError]]]] = {
    # The tool that wrote these (MyFlash) computed no checksums.
    "MyFlash/binlog_output_base.flashback": [
        (120, ChecksumMismatchError),
        (212, ChecksumMismatchError),
    ],
    "MyFlash/history/binlog_output_base.flashback": [
        (123, ChecksumMismatchError),
        (171, ChecksumMismatchError),
    ],
    "MyFlash/history/binlog_output_base.flashback.000001": [
        (123, ChecksumMismatchError),
        (172, ChecksumMismatchError),
    ],
    # Cut in the last event.
    "derived-plaintext/mysql_rpl_nogtid_encryption_master-bin.000002.decrypted": [
        (987, TruncatedEventError)
    ],
    "mariadb-test-data-11.8.9/bug11747416_32228_binlog.000001": [(316, TruncatedEventError)],
    "mysql-testsuite-9.7.4/binlog_truncated_event.000001": [(4, TruncatedEventError)],
    "mysql-testsuite-9.7.4/binlog_truncated_prev_gtid_event.000001": [(120, TruncatedEventError)],
    # Encrypted, and no key is given here.
    "mariadb-test-data-11.8.9/binlog_before_20574.bin": [(296, EncryptedBinlogError)],
    # Broken by hand for tests of the servers.
    "mariadb-test-data-11.8.9/binlog_invalid_row_v2_tag.001": [
        (256, BinlogDecodeError),
        (287, BinlogDecodeError),
        (320, BinlogDecodeError),
    ],
    "mariadb-test-data-11.8.9/mdev-39404-binlog.000001": [(256, ChecksumMismatchError)],
    "mysql-testsuite-9.7.4/binlog_no_fd_event.000001": [(4, BinlogFormatError)],
    "mysql-testsuite-9.7.4/corrupt-relay-bin.000624": [(91204, TruncatedEventError)],
    "mysql-testsuite-9.7.4/binlog_recovery/duplicate_xid.000001": [(672, ChecksumMismatchError)],
    "mysql-testsuite-9.7.4/binlog_recovery/duplicate_xid_ddl.000001": [
        (507, ChecksumMismatchError)
    ],
    "mysql-testsuite-9.7.4/binlog_recovery/duplicate_xid_xa_prepare.000001": [
        (884, ChecksumMismatchError)
    ],
    "mysql-testsuite-9.7.4/binlog_recovery/malformed_xid_xa_commit.000001": [
        (889, ChecksumMismatchError)
    ],
    "mysql-testsuite-9.7.4/binlog_recovery/malformed_xid_xa_rollback.000001": [
        (889, ChecksumMismatchError)
    ],
}
"""Files that are not intact: where their faults are, and of which kind, in order.

A fault of the format ends the reading of a file; after the one of an encrypted file all its events
are the same fault.
"""

DECRYPTED = "derived-plaintext/mariadb_binlog_before_20574.decrypted.bin"
"""Plaintext that still holds the START_ENCRYPTION event of the file that it was made from."""


def require_corpus() -> None:
    """Skip without the corpus; in CI it must be there."""
    if not CORPUS.is_dir():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no corpus at {CORPUS}")


def _begins_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(magic)) == magic


def binlog_files(magic: bytes = MAGIC) -> list[str]:
    """All files that begin with ``magic``, relative to the corpus."""
    if not CORPUS.is_dir():
        return []
    files = (path for path in sorted(CORPUS.rglob("*")) if path.is_file())
    return [str(path.relative_to(CORPUS)) for path in files if _begins_with(path, magic)]


__all__ = ["BROKEN", "CORPUS", "ENCRYPTED_MAGIC", "binlog_files", "require_corpus"]
