"""The character sets of collation ids.

Table maps, result set columns, handshakes and query status variables name a collation by number; its
character set is all that decoding needs. The ids come from the servers' own
``information_schema.COLLATIONS`` (MySQL 5.6 to 9.7, MariaDB 10.11 and 11.8).

Id ranges:

* 1 to 323: compiled into MySQL; MariaDB shares those up to 254.
* 576 to 767: MariaDB's own, 32 ids for each Unicode character set.
* + 1024: the NO PAD variant of a MariaDB collation.
* 2048 to 4095: MariaDB's ``uca1400`` collations, 256 ids for each Unicode character set.
"""

from __future__ import annotations

from types import MappingProxyType

BINARY_COLLATION_ID = 63
"""The ``binary`` pseudo character set: bytes, not text."""

MARIADB_NO_PAD_BIT = 1024
"""Added to a MariaDB collation id for its NO PAD variant."""

_IDS_BY_CHARSET: dict[str, tuple[range, ...]] = {
    "armscii8": (range(32, 33), range(64, 65)),
    "ascii": (range(11, 12), range(65, 66)),
    "big5": (range(1, 2), range(84, 85)),
    "binary": (range(63, 64),),
    "cp1250": (
        range(26, 27),
        range(34, 35),
        range(44, 45),
        range(66, 67),
        range(99, 100),
    ),
    "cp1251": (range(14, 15), range(23, 24), range(50, 53)),
    "cp1256": (range(57, 58), range(67, 68)),
    "cp1257": (range(29, 30), range(58, 60)),
    "cp850": (range(4, 5), range(80, 81)),
    "cp852": (range(40, 41), range(81, 82)),
    "cp866": (range(36, 37), range(68, 69)),
    "cp932": (range(95, 97),),
    "dec8": (range(3, 4), range(69, 70)),
    "eucjpms": (range(97, 99),),
    "euckr": (range(19, 20), range(85, 86)),
    "gb18030": (range(248, 251),),
    "gb2312": (range(24, 25), range(86, 87)),
    "gbk": (range(28, 29), range(87, 88)),
    "geostd8": (range(92, 94),),
    "greek": (range(25, 26), range(70, 71)),
    "hebrew": (range(16, 17), range(71, 72)),
    "hp8": (range(6, 7), range(72, 73)),
    "keybcs2": (range(37, 38), range(73, 74)),
    "koi8r": (range(7, 8), range(74, 75)),
    "koi8u": (range(22, 23), range(75, 76)),
    "latin1": (
        *(range(5, 6), range(8, 9), range(15, 16), range(31, 32)),
        *(range(47, 50), range(94, 95)),
    ),
    "latin2": (range(2, 3), range(9, 10), range(21, 22), range(27, 28), range(77, 78)),
    "latin5": (range(30, 31), range(78, 79)),
    "latin7": (range(20, 21), range(41, 43), range(79, 80)),
    "macce": (range(38, 39), range(43, 44)),
    "macroman": (range(39, 40), range(53, 54)),
    "sjis": (range(13, 14), range(88, 89)),
    "swe7": (range(10, 11), range(82, 83)),
    "tis620": (range(18, 19), range(89, 90)),
    "ucs2": (
        range(35, 36),
        range(90, 91),
        range(128, 160),
        range(640, 672),
        range(2560, 2816),
    ),
    "ujis": (range(12, 13), range(91, 92)),
    "utf16": (range(54, 56), range(101, 125), range(672, 704), range(2816, 3072)),
    "utf16le": (range(56, 57), range(62, 63)),
    "utf32": (range(60, 62), range(160, 184), range(736, 768), range(3072, 3328)),
    "utf8mb3": (
        *(range(33, 34), range(76, 77), range(83, 84), range(192, 224)),
        *(range(576, 608), range(2048, 2304)),
    ),
    "utf8mb4": (
        *(range(45, 47), range(224, 248), range(255, 324)),
        *(range(608, 640), range(2304, 2560)),
    ),
}


def _by_id() -> dict[int, str]:
    names: dict[int, str] = {}
    for charset, id_ranges in _IDS_BY_CHARSET.items():
        for id_range in id_ranges:
            for collation_id in id_range:
                names[collation_id] = charset
                if collation_id < 255 or 576 <= collation_id < 768:
                    names[collation_id + MARIADB_NO_PAD_BIT] = charset
    return names


CHARSET_BY_COLLATION_ID = MappingProxyType(_by_id())
"""Collation id -> character set name, in MySQL 9's spelling (``utf8mb3``, never ``utf8``)."""

CHARSETS = tuple(sorted(_IDS_BY_CHARSET))
"""Names of all character sets of MySQL and MariaDB."""
