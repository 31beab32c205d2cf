"""Labels as servers keep them: what was seen on MySQL 5.6 and 9.7, MariaDB 10.11 and 11.8."""

from __future__ import annotations

import pytest

from replica_client.schema.character_sets import (
    UNCONVERTED,
    ByteLabel,
    Written,
    kept_label,
    kept_labels,
    needed,
)

FISH = "".join(chr(0xDC00 + byte) for byte in "🐟".encode())
"""Its bytes, each of which is no text in utf8mb3."""


@pytest.mark.parametrize(
    ("label", "client", "connection", "charset", "kept"),
    [
        ("ü", "utf8mb4", "utf8mb4", "utf8mb4", "ü"),
        ("ü", None, None, "latin1", "ü"),
        ("ж", "utf8mb4", "utf8mb4", "latin1", "?"),
        ("🐟", "utf8mb4", "utf8mb4", "utf8mb3", "?"),
        # What the client's character set lacks is a ? for each byte.
        (f"q{FISH}z", "utf8mb3", "utf8mb3", "utf8mb4", "q????z"),
        (f"q{FISH}z", "utf8mb3", "utf8mb3", "utf8mb3", "q????z"),
        (f"q{FISH}z", "utf8mb3", "utf8mb3", "latin1", "q????z"),
        (f"q{FISH}z", "utf8mb3", "utf8mb3", "binary", None),
        ("\udced\udca0\udc80", "utf8mb3", "utf8mb3", "utf8mb4", None),
        (f"q{FISH}z", "utf8mb4", "utf8mb4", "utf8mb4", None),
        ("q\udcbfz", "hebrew", "hebrew", "utf8mb4", "q?z"),
        ("q\udcbfz", "hebrew", "hebrew", "hebrew", None),
        ("q\udcffz", "tis620", "tis620", "utf8mb4", None),
        ("q\udc80z", "gbk", "gbk", "utf8mb4", None),
        # What the connection's lacks, too.
        ("ж", "utf8mb4", "latin1", "utf8mb4", "?"),
        ("ü", "utf8mb4", "latin1", "utf8mb4", "ü"),
        ("ü", "utf8mb4", "ascii", "utf8mb4", "?"),
        ("🐟", "utf8mb4", "utf8mb3", "utf8mb4", "?"),
        # Bytes go as they are through binary.
        ("ü", "binary", "binary", "utf8mb4", "ü"),
        ("ü", "binary", "binary", "latin1", "Ã¼"),
        ("ü", "utf8mb4", "binary", "latin1", "Ã¼"),
        ("ü", "binary", "binary", "ucs2", None),
        ("ab", "binary", "binary", "ucs2", None),
        ("ab", "binary", "binary", "latin1", "ab"),
        ("🐟", "binary", "binary", "utf8mb3", None),
        ("\udcfc", "binary", "binary", "latin1", "ü"),
        ("ü", "latin1", "latin1", "binary", None),
        ("ü", "utf8mb4", "utf8mb4", "binary", "ü"),
        ("ab", "latin1", "latin1", "binary", "ab"),
        # Spaces at the end are kept in the binary character set only.
        ("a ", "utf8mb4", "utf8mb4", "utf8mb4", "a"),
        ("a ", "utf8mb4", "utf8mb4", "binary", "a "),
        ("a ", "utf8mb4", "utf8mb4", None, "a "),
        # swe7 has other characters in places of ASCII.
        ("b\\s", "utf8mb4", "utf8mb4", "swe7", "b?s"),
        ("{", "utf8mb4", "utf8mb4", "swe7", "?"),
        ("{a", "utf8mb4", "swe7", "utf8mb4", "?a"),
        ("{", "binary", "binary", "swe7", "ä"),
        ("ab", "binary", "binary", "swe7", "ab"),
        # Bytes are not converted.
        (ByteLabel(b"\xfc"), "utf8mb4", "utf8mb4", "latin1", "ü"),
        (ByteLabel(b"\xfc "), "utf8mb4", "utf8mb4", "latin1", "ü"),
        (ByteLabel(b"\xc3\xbc"), "utf8mb4", "latin1", "utf8mb4", "ü"),
        # The column's is not known.
        ("ü", "binary", "binary", None, None),
        ("ab", "binary", "binary", None, "ab"),
        ("ж", "utf8mb4", "latin1", None, "?"),
    ],
)
def test_a_label_goes_through_three_character_sets(
    label: str, client: str | None, connection: str | None, charset: str | None, kept: str | None
) -> None:
    assert kept_label(label, Written(client, connection), charset) == kept


def test_labels_that_are_not_known_are_numbered() -> None:
    written = Written("gbk", "gbk")
    assert kept_labels(("a", "x\udc80", "表"), written, "utf8mb4") == (("a", "x?", "表"), (2,))


@pytest.mark.parametrize(
    ("label", "written", "needs"),
    [
        ("a", Written("utf8mb4", "utf8mb4"), False),
        ("{", Written("utf8mb4", "latin1"), False),
        ("{", Written("swe7", "utf8mb4"), False),
        ("{", Written("utf8mb4", "swe7"), True),
        ("a", Written("utf8mb4", "binary"), True),
        ("a", Written("utf8mb4", "ucs2"), True),
    ],
)
def test_sessions_whose_character_sets_matter(label: str, written: Written, needs: bool) -> None:
    assert needed((label,), written) == (written if needs else UNCONVERTED)
