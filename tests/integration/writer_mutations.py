"""Wrong value rules, planted one by one in the source of the lake's writer, and whether its verifier names the table.

A copy of the package with one wrong rule reads the binlog into a lake, and compares the lake with the server. The
verifier runs in the same wrong copy: a rule that it shares with the writer would agree with itself.

As a program, with the arguments of :func:`differing_tables`: prints the tables that differ.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import replica_client

_PACKAGE = Path(replica_client.__file__).parent
_ROOT = Path(__file__).resolve().parents[2]

TABLES = {
    "decimals": ("decimal(65,30)", "-1.5", "12345678901234567890123456789012345.5", "NULL"),
    "small_decimals": ("decimal(10,2)", "-99999999.99", "0.10", "-0.01"),
    "datetimes": ("datetime(3)", "'2026-01-02 03:04:05.006'", "'1000-01-01'", "NULL"),
    "stamps": ("timestamp(6) null", "'1970-01-01 00:00:01.000001'", "NULL"),
    "times": ("time(6)", "'-838:59:59.000000'", "'00:00:00.000001'", "'-00:00:00.000001'"),
    "dates": ("date", "'0000-00-00'", "'2026-00-10'", "'9999-12-31'", "NULL"),
    "years": ("year", "0", "1901", "2155", "NULL"),
    "bits": ("bit(20)", "1", "x'0f0102'", "NULL"),
    "labels": ("enum('a', 'b', 'c')", "'a'", "'c'", "NULL"),
    "sets": ("set('x', 'y', 'z')", "'x,z'", "''", "NULL"),
    "documents": ("json", "'null'", "NULL", "'[null, 1]'"),
    "big_unsigned": ("bigint unsigned", "18446744073709551615", "9007199254740993", "0"),
    "small_unsigned": ("smallint unsigned", "65535", "0"),
    "doubles": ("double", "-0e0", "0", "0.1"),
    "floats": ("float", "-0e0", "16777217", "0.1"),
    "old_text": ("varchar(20) character set latin1", "'é€'", "'a '"),
    "texts": ("varchar(20)", "'a '", "''", "NULL"),
    "vectors": ("vector(2)", "to_vector('[1,-0.0]')", "to_vector('[1e-30,3e38]')"),
    "shapes": ("geometry", "ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)", "point(0, 1)"),
    "octets": ("binary(4)", "x'01'", "x'ff00'", "NULL"),
}  # fmt: skip
"""Tables of a key and one column: its type, and its values."""


class Mutation(NamedTuple):
    """A wrong rule: a text of a module, what stands there instead, and the tables that it makes wrong."""

    what: str
    module: str
    right: str
    wrong: str
    tables: frozenset[str]


def _mutation(what: str, module: str, right: str, wrong: str, *tables: str) -> Mutation:
    return Mutation(what, module, right, wrong, frozenset(tables))


_SAME = "    if kind == wanted:\n        return found\n"
MUTATIONS = (
    _mutation(
        "decimals have no sign",
        "protocol/binlog/values/decimal.py",
        "negative: cython.bint = data[offset] < 0x80\n    if precision <=",
        "negative: cython.bint = False\n    if precision <=",
        *("decimals", "small_decimals"),
    ),
    _mutation(
        "fractions are ten times too small",
        "protocol/binlog/values/temporal_storage.py",
        "fraction * 100)",
        "fraction * 10)",
        "datetimes",
    ),
    _mutation(
        "negative times are positive",
        "protocol/binlog/values/temporal_storage.py",
        "return -total if raw < _TIME2_ZERO << shift else total",
        "return total",
        "times",
    ),
    _mutation(
        "timestamps are an hour late",
        "protocol/binlog/values/temporal_storage.py",
        "return seconds * 1_000_000 + microseconds\n",
        "return (seconds + 3600) * 1_000_000 + microseconds\n",
        "stamps",
    ),
    _mutation(
        "zero dates are NULL",
        "rows/column_writer.py",
        "self.lossless.append((row, sink.name, lossless_text(value)))",
        "pass",
        "dates",
    ),
    _mutation(
        "the year 0 is 1900",
        "rows/column_writer.py",
        "data[offset] + 1900 if data[offset] else 0",
        "data[offset] + 1900",
        "years",
    ),
    _mutation(
        "bits are in the other order",
        "rows/column_writer.py",
        "elif op == OP_BIT:\n                store_number(values, i, width, load_be(",
        "elif op == OP_BIT:\n                store_number(values, i, width, load_le(",
        "bits",
    ),
    _mutation(
        "labels are in the other order",
        "protocol/binlog/values/value_types.py",
        "map(EnumValue, range(1, len(labels) + 1), labels)",
        "map(EnumValue, range(1, len(labels) + 1), labels[::-1])",
        "labels",
    ),
    _mutation(
        "sets are separated by semicolons",
        "protocol/binlog/values/value_types.py",
        'text = f"{text},{label}" if text else label',
        'text = f"{text};{label}" if text else label',
        "sets",
    ),
    _mutation(
        "the document null is NULL",
        "lake/typed_columns.py",
        _SAME,
        '    if model.kind == "json":\n'
        '        return pc.if_else(pc.equal(found, "null"), pa.scalar(None, kind), found)\n'
        + _SAME,
        "documents",
    ),
    _mutation(
        "zero has no sign",
        "lake/typed_columns.py",
        _SAME,
        "    if pa.types.is_float64(kind):\n        return pc.add(found, 0.0)\n" + _SAME,
        "doubles",
    ),
    _mutation(
        "large numbers are rounded",
        "lake/typed_columns.py",
        "return found.cast(_BIG).cast(wanted)",
        "return pc.bit_wise_and(found, pa.scalar(2**64 - 2, pa.uint64())).cast(_BIG).cast(wanted)",
        "big_unsigned",
    ),
    _mutation(
        "unsigned numbers are signed",
        "lake/typed_columns.py",
        _SAME,
        "    if pa.types.is_uint16(kind):\n        return found.cast(pa.int16(), safe=False).cast(wanted)\n"
        + _SAME,
        "small_unsigned",
    ),
    _mutation(
        "old text is another character set",
        "lake/typed_columns.py",
        _SAME,
        '    if model.charset == "latin1":\n'
        '        made = [None if one is None else one.encode("cp1252").decode("cp1251") for one in found.to_pylist()]\n'
        "        return pa.array(made, kind)\n" + _SAME,
        "old_text",
    ),
    _mutation(
        "texts are trimmed",
        "rows/column_writer.py",
        "trims: cython.bint = sink.op == OP_UTF8_CHAR",
        "trims: cython.bint = True",
        "texts",
    ),
    _mutation(
        "vectors are reversed",
        "protocol/binlog/values/value_types.py",
        "range(0, len(data), _ITEM_SIZE))",
        "reversed(range(0, len(data), _ITEM_SIZE)))",
        "vectors",
    ),
    _mutation(
        "a geometry has no srid",
        "protocol/binlog/values/value_types.py",
        'Geometry(int.from_bytes(data[:_SRID_SIZE], "little"), data[_SRID_SIZE:])',
        "Geometry(0, data[_SRID_SIZE:])",
        "shapes",
    ),
    _mutation(
        "octets are not padded",
        "rows/image.py",
        "return data[offset : offset + length] + bytes(column.length - length)",
        "return data[offset : offset + length]",
        "octets",
    ),
)


def make_tables(server: Any, database: str) -> str:
    """Make the tables; returns the position before."""
    position = ":".join(map(str, server.binlog_position()))
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("set sql_mode = '', time_zone = '+00:00'")
        for name, (kind, *values) in TABLES.items():
            cursor.execute(
                f"create table {name} (id int primary key, v {kind}) character set utf8mb4"
            )
            rows = ", ".join(f"({at}, {value})" for at, value in enumerate(values))
            cursor.execute(f"insert into {name} values {rows}")
    return position


def found_by_verifier(
    directory: Path, url: str, database: str, position: str, mutation: Mutation | None
) -> set[str]:
    """Plant a mutation in a copy of the package, make a lake with it, and return the tables that its verifier names."""
    directory.mkdir()
    package = directory / "replica_client"
    shutil.copytree(_PACKAGE, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (directory / "tests").symlink_to(_ROOT / "tests")
    if mutation is not None:
        path = package / mutation.module
        text = path.read_text(encoding="utf-8")
        assert text.count(mutation.right) == 1, (mutation.what, text.count(mutation.right))
        path.write_text(text.replace(mutation.right, mutation.wrong), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.writer_mutations"]
        + [url, database, position, str(directory / "lake")],
        cwd=directory,
        env={**os.environ, "REPLICA_CLIENT_IMPL": "python", "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (mutation, done.stderr[-2000:])
    assert str(directory) in done.stderr, done.stderr
    shutil.rmtree(directory)
    return set(done.stdout.split())


def differing_tables(url: str, database: str, position: str, directory: Path) -> list[str]:
    """Read the binlog into a lake, and return the tables that the verifier finds different."""
    from replica_client.lake.data_files import open_delta
    from replica_client.lake.verify.row_groups import differing
    from replica_client.lake.verify.sides import (
        FileTask,
        file_checksums,
        file_rows,
        source_checksums,
        source_rows,
        together,
    )
    from replica_client.storage.location import location
    from replica_client.stream.transport.connect_options import parse_url
    from replica_client.stream.transport.connection import SourceConnection
    from tests.spark.change_logs import lake_of, typed_log

    log = typed_log(directory / "log", url, tables=f"{database}.*", startingPosition=position)
    engine = lake_of(log, directory / "lake")

    async def compare() -> list[str]:
        found = []
        async with await SourceConnection.open(parse_url(url)) as connection:
            for entry in engine.catalog.tables.values():
                assert entry.status == "current" and entry.model is not None, entry
                grouping, theirs, _ = await source_checksums(connection, entry.model, "never")
                files = [
                    location(one) for one in open_delta(engine.catalog.home(entry)).file_uris()
                ]
                tasks = [FileTask(one, 0, grouping) for one in files]
                groups = differing(together([file_checksums(one) for one in tasks]), theirs)
                if not groups:
                    continue
                wanted = frozenset(groups)
                rows, _ = await source_rows(connection, grouping, groups, "never")
                mine = [
                    row for one in files for row in file_rows(FileTask(one, 0, grouping, wanted))
                ]
                if sorted(map(repr, rows)) != sorted(map(repr, mine)):
                    found.append(entry.table[1])
        return found

    return asyncio.run(compare())


if __name__ == "__main__":
    print(replica_client.__file__, file=sys.stderr)
    _, source, name, begin, where = sys.argv
    print(*differing_tables(source, name, begin, Path(where)))
