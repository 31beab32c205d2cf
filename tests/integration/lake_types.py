"""Columns of every type, with rows at the edges: what a lake must have as the source has it."""

TYPES = {
    "integers": (
        "a tinyint, b smallint unsigned, c mediumint, d int unsigned, e bigint unsigned, f year, g bit(64)",
        "-128, 65535, -8388608, 4294967295, 18446744073709551615, 2155, b'1'",
        "1, 0, 0, 0, 0, 1999, b'1000000000000000000000000000000000000000000000000000000000000001'",
    ),
    "numbers": (
        "a float, b double, c decimal(65,30), d decimal(10,2), e decimal(38,0)",
        "16777217.1, 1e-300, -12345678901234567890123456789012345.000000000000000000000000000001, 0.5, -1",
        "0.1, -0.0, 0, -99999999.99, 99999999999999999999999999999999999999",
    ),
    "times": (
        "a date, b time(6), c datetime(3), d timestamp(6) null, e datetime",
        "'9999-12-31', '-838:59:58.999999', '2026-02-03 04:05:06.789', '2038-01-19 03:14:07.000001', "
        "'2026-01-01 00:00:00'",
        "'0000-00-00', '00:00:00', '0000-00-00 00:00:00', '1970-01-01 00:00:01', '2026-00-10 01:02:03'",
    ),
    "texts": (
        "a char(5), b varchar(20), c varchar(20) character set latin1, d longtext, e enum('a', 'b'), f set('x', 'y')",
        "'ab', 'é ✓😀', 'café', 'long \\\\ \\n', 'b', 'x,y'",
        "'', '', '', '', 'a', ''",
    ),
    "octets": (
        "a binary(4), b varbinary(9), c blob, d point, e json",
        "x'0100', x'', x'00ff', point(1, -2), '{\"b\": [1, null, 2.5]}'",
        "'abcd', 'z', 'b', point(0, 0), '[]'",
    ),
}
