"""Our reading of JSON documents against the server's own text, run after run."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pymysql

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_binary import JsonDocument, encode_json
from replica_client.protocol.binlog.values.json_diff import apply_diffs, decode_diffs, encode_diffs
from tests.integration.json_generator import TYPES_TABLE, Generator
from tests.integration.json_server import JsonServer

_SHOWN = 3
_BATCH = 100


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison; ``difference`` is empty when both sides agree."""

    what: str
    difference: str = ""
    golden: dict[str, str] | None = None
    """What a golden file keeps of it: bytes as hex, and the server's text."""


@dataclass(slots=True)
class Tally:
    """Counts comparisons by what was compared, and prints the first differences."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: int = 0

    def add(self, compared: Compared) -> None:
        self.counts[compared.what] += 1
        if compared.difference:
            self.differences += 1
            if self.differences <= _SHOWN:
                print(f"DIFFERENCE in {compared.what}: {compared.difference[:2000]}")

    def __str__(self) -> str:
        counted = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        return f"{counted}; {self.differences} differences"


def check_document(data: bytes, text: str, fresh: bool = True) -> str:
    """What is wrong with our reading of a document; empty when nothing is."""
    document = JsonDocument(data)
    if document.text != text:
        return f"text {document.text!r} is not the server's {text!r} ({data.hex()})"
    compacted = document.compacted()
    if fresh and compacted.data != data:
        return f"{text!r} is stored as {data.hex()}, encoded as {compacted.data.hex()}"
    if compacted.text != text:
        return f"encoded again it is {compacted.text!r}, not {text!r}"
    again = JsonDocument(encode_json(document.value)).text
    if again != text:
        return f"the value of {text!r} encodes to {again!r}"
    return ""


def _make_types(server: JsonServer, generator: Generator) -> None:
    server.execute("DROP TABLE IF EXISTS types")
    server.execute(TYPES_TABLE)
    server.execute("SET SESSION sql_mode = ''")
    _fill_types(server, generator)


def _fill_types(server: JsonServer, generator: Generator) -> None:
    row = generator.types_row()
    server.execute("DELETE FROM types")
    marks = ", ".join(["%s"] * len(row))
    server.execute(f"INSERT INTO types VALUES ({marks})", row)


def compare_documents(server: JsonServer, seed: int, count: int) -> Iterator[Compared]:
    """Documents over all column types."""
    generator = Generator(seed)
    _make_types(server, generator)
    for first in range(0, count, _BATCH):
        server.make_table("docs")
        _fill_types(server, generator)
        start = server.position()
        for row_id in range(first, min(first + _BATCH, count)):
            sql, args = generator.expression()
            wrapped = f"JSON_ARRAY({sql})" if generator.random.random() < 0.9 else None
            if wrapped is None:
                wrapped = f"JSON_EXTRACT(JSON_ARRAY({sql}), '$[0]')"
            server.execute(f"INSERT INTO docs SELECT {row_id}, {wrapped} FROM types", args)
        yield from _compare_rows(server, "docs", start, "documents")


def compare_large(server: JsonServer, seed: int, count: int) -> Iterator[Compared]:
    """Documents on both sides of the border to the large format."""
    generator = Generator(seed)
    server.make_table("large_docs")
    start = server.position()
    for row_id in range(count):
        server.execute("INSERT INTO large_docs VALUES (%s, %s)", (row_id, generator.large()))
    yield from _compare_rows(server, "large_docs", start, "large documents")


def _compare_rows(
    server: JsonServer, table: str, start: tuple[str, int], what: str
) -> Iterator[Compared]:
    expected = server.texts(table)
    logged = {row.id: row.after for row in server.logged(table, start)}
    if logged.keys() != expected.keys():
        yield Compared(what, f"{len(expected)} rows, {len(logged)} of them logged")
    for row_id, text in expected.items():
        data = logged[row_id]
        if data is None or text is None:
            same = (data is None) == (text is None)
            yield Compared("NULL", "" if same else f"{data!r} against {text!r}")
        else:
            golden = {"document": data.hex(), "text": text}
            yield Compared(what, check_document(data, text), golden)


def compare_updates(
    server: JsonServer, seed: int, count: int, filler: int = 3000
) -> Iterator[Compared]:
    """Chains of updates in place, logged as diffs; each result against the SELECT after it.

    The longer the filler, the more often the server finds diffs shorter than the document.
    """
    generator = Generator(seed)
    _make_types(server, generator)
    server.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
    try:
        server.make_table("partial")
        done = 0
        for row_id in range(1 << 30):
            if done >= count:
                return
            size = filler * (25 if generator.random.random() < 0.1 else 1)
            row = {
                "filler": "x" * size,
                "list": [1, "two", {"three": 3}],
                "a": generator.plain(3),
            }
            row |= {f"k{i}": generator.plain(2) for i in range(generator.random.randrange(8))}
            server.execute("INSERT INTO partial VALUES (%s, %s)", (row_id, _json(row)))
            for _ in range(12):
                if done >= count:
                    break
                difference = _one_update(server, generator, row_id)
                if difference is not None:
                    done += 1
                    yield difference
    finally:
        server.execute("SET SESSION binlog_row_value_options = ''")


def _json(value: object) -> str:
    return JsonDocument.of(value).text


def _one_update(server: JsonServer, generator: Generator, row_id: int) -> Compared | None:
    data = server.execute("SELECT CAST(j AS CHAR) FROM partial WHERE id = %s", (row_id,))
    before_text = data[0][0]
    value = json.loads(before_text)
    sql, args = generator.update(value, "j")
    start = server.position()
    statement = f"UPDATE partial SET j = {sql} WHERE id = %s"
    try:
        server.execute(statement, [*args, row_id])
    except pymysql.err.MySQLError:
        return None
    text = server.execute("SELECT CAST(j AS CHAR) FROM partial WHERE id = %s", (row_id,))[0][0]
    rows = list(server.logged("partial", start))
    if not rows:
        return Compared("unchanged", "" if text == before_text else "a change that is not logged")
    (row,) = rows
    if row.before is None:
        return Compared("update of NULL")
    difference = check_document(row.before, before_text, fresh=False)
    if difference:
        return Compared("before image", difference)
    before = JsonDocument(row.before)
    if row.diffs is None:
        if row.after is None or text is None:
            return Compared("update to NULL", "" if row.after is text else "NULL against a value")
        return Compared("full update", check_document(row.after, text, fresh=False))
    diffs = decode_diffs(row.diffs)
    if encode_diffs(diffs) != row.diffs:
        return Compared("diffs", f"{row.diffs.hex()} is encoded as {encode_diffs(diffs).hex()}")
    what = f"partial update of {min(len(diffs), 3)}{'+' if len(diffs) > 2 else ''} diffs"
    shown = [str(diff) for diff in diffs]
    try:
        after = apply_diffs(before, diffs).text
    except ColumnDecodeError as error:
        return Compared(what, f"{error}: {before_text} {statement} {args} {shown}")
    if after != text:
        return Compared(what, f"{after!r} is not {text!r}: {before_text!r} with {shown}")
    golden = {"before": row.before.hex(), "diffs": row.diffs.hex(), "text": text}
    return Compared(what, "", golden)


def compare_judged(server: JsonServer, seed: int, count: int) -> Iterator[Compared]:
    """Mutated documents: what we read, the server must read alike.

    What we refuse is not shown to the server: MySQL 9.7.4 itself crashes on some such documents.
    """
    if server.execute("SELECT @@gtid_mode")[0][0] == "ON":
        print("judged: left out, BINLOG statements without a GTID need gtid_mode=OFF")
        return
    generator = Generator(seed)
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(encode_json(generator.rich()))
        for _ in range(chance.choice((0, 1, 1, 1, 2, 5))):
            at = chance.randrange(len(data))
            if chance.random() < 0.2:
                del data[at:]
                data = data or bytearray(b"\0")
            else:
                data[at] = chance.choice((0, 1, 2, 15, 0xFF, chance.randrange(256)))
        document = JsonDocument(bytes(data))
        try:
            ours = document.text
        except ColumnDecodeError:
            yield Compared("refused by us, not shown")
            continue
        theirs = server.judge(document.data)
        if ours == theirs:
            yield Compared("mutated documents read alike")
        else:
            yield Compared("judged", f"{data.hex()}: {ours!r} is not the server's {theirs!r}")
