"""What the Debezium format makes of binlogs beside what the real engine gave, field by field."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import re
import struct
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from replica_client import open_binlog
from replica_client.rows.selection import Selection
from replica_client.schema.history import START, SchemaHistory
from replica_client.schema.known_tables import LogPosition
from replica_client.sinks.formats.debezium import DebeziumFormat
from replica_client.sinks.formats.message import KeyChoice, Message
from replica_client.stream.transactions.assembler import AssemblyOptions
from tests.integration.debezium_changes import HEXADECIMAL
from tests.source.restarts import transactions_with_restarts

_CONVERTERS = {"connector.class", "database.server.id", "snapshot.mode", "database.include.list"}
_MAX_KEPT = 40
_MOST = (1 << 63) - 1
_MOST_OF_FOUR_BYTES = 3.4028234e38
# Names of types in statements, and those that the server gives them.
_NAMES = {
    "DOUBLE PRECISION": "DOUBLE",
    "REAL": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "BOOL": "TINYINT",
    "BOOLEAN": "TINYINT",
}
_CLOCK = re.compile(r"(-?)(\d+):\d\d:\d\d(?:\.\d+)?Z")


@dataclass(frozen=True)
class Record:
    """A message: its topic, key and value; a tombstone's value is None."""

    topic: str
    key: str | None
    value: str | None


def our_options(properties: Mapping[str, str]) -> tuple[dict[str, object], bool]:
    """Options of the format by the engine's properties, and whether there are tombstones."""
    words = {"true": True, "false": False}
    options: dict[str, object] = {"schemas_enable": True, "replace_null_with_default": True}
    options["bigint_unsigned_handling_mode"] = "long"
    options["skipped_operations"] = "t"
    tombstones = True
    for name, value in properties.items():
        if name == "tombstones.on.delete":
            tombstones = value == "true"
        elif name == "converter.schemas.enable":
            options["schemas_enable"] = value == "true"
        elif name == "converter.replace.null.with.default":
            options["replace_null_with_default"] = value == "true"
        elif name not in _CONVERTERS:
            options[name.replace(".", "_")] = words.get(value, value)
    return options, tombstones


def our_records(
    files: Sequence[Path],
    properties: Mapping[str, str],
    *,
    since: LogPosition = START,
    schema: SchemaHistory | None = None,
    tables: Sequence[str] = ("shop.*",),
    restarts: int | None = None,
) -> Iterator[Record]:
    """The messages of binlogs, from a position on.

    Args:
        files: the binlogs.
        properties: of the engine.
        since: messages before it are left out.
        schema: what tables look like where the files begin.
        tables: that are followed.
        restarts: a seed; the reader ends then now and then, and another one goes on with what was saved.
    """
    options, tombstones = our_options(properties)
    prefix = str(properties["topic.prefix"])
    given: dict[str, Any] = {
        "schema": schema,
        "assembly": AssemblyOptions(Selection(list(tables))),
    }
    with tempfile.TemporaryDirectory() as directory:
        if restarts is None:
            transactions = ((0, one) for one in open_binlog(list(files), **given).transactions())
        else:
            store = Path(directory) / "position"
            transactions = transactions_with_restarts(files, store, restarts, **given)
        for _, readers in groupby(transactions, key=itemgetter(0)):
            line_format = DebeziumFormat.of(options, KeyChoice())
            for _, transaction in readers:
                start = transaction.start
                records = _records(line_format.messages(transaction), prefix, tombstones)
                if LogPosition.of(start.file, start.offset) < since:
                    deque(records, maxlen=0)
                yield from records


def _records(messages: Iterable[Message], prefix: str, tombstones: bool) -> Iterator[Record]:
    for message in messages:
        topic = {"schema": prefix, "transaction": f"{prefix}.transaction"}.get(
            message.kind, f"{prefix}.{message.database}.{message.table}"
        )
        yield Record(topic, message.key, message.value)
        if message.gone is not None and tombstones:
            yield Record(topic, message.gone, None)


@dataclass
class Comparison:
    """What was compared, and what differs.

    Attributes:
        properties: of the engine.
        records: how many pairs were compared.
        fields: how many fields.
        xa: GTIDs of the commits of XA transactions.
        explained: how often an intended difference was met, by its name.
        unexplained: the others, in words.
    """

    properties: Mapping[str, str]
    records: int = 0
    fields: int = 0
    xa: frozenset[str] = frozenset()
    explained: Counter[str] = field(default_factory=Counter)
    unexplained: Counter[str] = field(default_factory=Counter)
    _truncates: bool = False
    _in_xa: bool = False
    _reading: bool = False
    _equal: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def _prefix(self) -> str:
        return self.properties["topic.prefix"]

    def compare(self, theirs: Iterable[Record], ours: Iterable[Record]) -> None:
        """Compare records pair by pair."""
        left, right = iter(theirs), iter(ours)
        while len(self.unexplained) < _MAX_KEPT:
            their, our = next(left, None), next(right, None)
            while their is not None and their.key is None and their.value is None:
                self.explained["tombstones without a key"] += 1
                their = next(left, None)
            while our is not None and self._only_ours(our):
                self.explained["XA transactions"] += 1
                our = next(right, None)
            if their is None and our is None:
                return
            if their is None or our is None or their.topic != our.topic:
                self._differ("record", their, our)
                return
            self.records += 1
            self._member(f"{their.topic} key", their.key, our.key)
            self._member(f"{their.topic} value", their.value, our.value)

    def compare_snapshot(self, theirs: Iterable[Record], ours: Iterable[Record]) -> None:
        """Compare the rows of a snapshot, table by table: which table comes first is nobody's choice."""
        self._reading = True
        left, right = _by_topic(theirs), _by_topic(ours)
        for topic in sorted(left.keys() | right.keys()):
            their, our = left.get(topic, []), right.get(topic, [])
            if len(their) != len(our):
                self._differ(f"{topic}: rows of the snapshot", len(their), len(our))
            for one, other in zip(their, our, strict=False):
                self.records += 1
                self._member(f"{topic} key", one.key, other.key)
                self._member(f"{topic} value", one.value, other.value)
                if len(self.unexplained) >= _MAX_KEPT:
                    break
        self._reading = False

    def _only_ours(self, our: Record) -> bool:
        """Whether a record is the beginning or the end of an XA transaction, which the engine does not tell."""
        if our.topic != f"{self._prefix}.transaction" or our.key is None:
            return False
        key = json.loads(our.key)
        return key.get("payload", key)["id"] in self.xa

    def _member(self, path: str, their: str | None, our: str | None) -> None:
        if their is None or our is None:
            self._leaf(path, their, our)
            return
        their_value, our_value = self._read(path, their, our)
        if isinstance(our_value, dict):
            payload = our_value.get("payload") or our_value
            source = payload.get("source") if isinstance(payload, dict) else None
            self._in_xa = isinstance(source, dict) and source.get("gtid") in self.xa
        self._truncates = isinstance(our_value, dict) and "t" in (
            our_value.get("op"),
            (our_value.get("payload") or {}).get("op"),
        )
        if isinstance(their_value, dict) and isinstance(our_value, dict):
            self._schemas(their_value, our_value)
        self._walk(path, their_value, our_value)

    def _read(self, path: str, their: str, our: str) -> tuple[Any, Any]:
        """Both messages; without schemas that are those of the last ones, which were equal."""
        heads = self._equal.get(path)
        if heads is not None and their.startswith(heads[0]) and our.startswith(heads[1]):
            self.fields += 1
            payloads = (
                text[len(head) : -1] for text, head in zip((their, our), heads, strict=True)
            )
            their_payload, our_payload = map(json.loads, payloads)
            return {"payload": their_payload}, {"payload": our_payload}
        their_value, our_value = json.loads(their), json.loads(our)
        if isinstance(our_value, dict) and isinstance(their_value, dict):
            schemas = their_value.get("schema"), our_value.get("schema")
            if schemas[0] is not None and schemas[0] == schemas[1]:
                self._equal[path] = _head(their), _head(our)
        return their_value, our_value

    def _schemas(self, their: dict[str, Any], our: dict[str, Any]) -> None:
        """Leave out schemas that are equal: there are few, and every message has one."""
        if their.get("schema") is not None and their["schema"] == our.get("schema"):
            self.fields += 1
            del their["schema"], our["schema"]

    def _walk(self, path: str, their: Any, our: Any) -> None:
        if isinstance(their, dict) and isinstance(our, dict):
            for name in their.keys() | our.keys():
                if name in their and name in our:
                    self._walk(f"{path}.{name}", their[name], our[name])
                elif name == "default" and None in HEXADECIMAL.get(our.get(name), ()):
                    self.explained["hexadecimal defaults"] += 1
                else:
                    self._differ(
                        f"{path}.{name}",
                        their.get(name, "(not there)"),
                        our.get(name, "(not there)"),
                    )
        elif isinstance(their, list) and isinstance(our, list) and len(their) == len(our):
            if path.endswith(".data_collections"):
                # Debezium's are in no order.
                their, our = (sorted(one, key=str) for one in (their, our))
            for at, (one, other) in enumerate(zip(their, our, strict=True)):
                named = one.get("field") or one.get("name") if isinstance(one, dict) else at
                self._walk(f"{path}[{named}]", one, other)
        else:
            self._leaf(path, their, our)

    def _leaf(self, path: str, their: Any, our: Any) -> None:
        self.fields += 1
        if their == our and type(their) is type(our):
            return
        if _number(their) and _number(our) and math.isclose(their, our, rel_tol=0, abs_tol=0):
            return
        reason = self._intended(path, their, our)
        if reason is None:
            self._differ(path, their, our)
        else:
            self.explained[reason] += 1

    def _differ(self, path: str, their: Any, our: Any) -> None:
        self.unexplained[f"{path}: theirs {their!r:.400}, ours {our!r:.400}"] += 1

    def _intended(self, path: str, their: Any, our: Any) -> str | None:
        """The intended difference that this is; None: none. The documentation lists them by these names."""
        if self._reading and ".source.ts_" in path:
            return "times of a snapshot"
        if self._reading and path.endswith(".source.snapshot") and _same_mark(their, our):
            return "order of a snapshot's tables"
        if self._in_xa and (
            ".source.ts_" in path or path.endswith((".gtid", ".transaction", ".thread"))
        ):
            return "XA transactions"
        if path.endswith((".source.version", ".ts_ms", ".ts_us", ".ts_ns")):
            of_source = ".source." in path
            is_time = not path.endswith("version")
            return None if of_source and is_time else "time of writing, version"
        times = self.properties.get("time.precision.mode", "")
        row = ".after." in path or ".before." in path or " key." in path
        if (their, our) == ("float", "double"):
            return "REAL"
        if row and type(our) is float and _four_bytes(their, our):
            return "REAL"
        of_default = row or path.endswith(".default")
        if of_default and isinstance(our, (int, str)) and their in HEXADECIMAL.get(our, ()):
            return "hexadecimal defaults"
        if row and isinstance(their, str) and isinstance(our, str):
            if _bytes_of_digits(their, our) or _escaped(their, our):
                return "defaults of binary columns"
        if self._reading and row:
            if type(their) is float and type(our) is float and _six_digits(their, our):
                return "FLOAT in a snapshot"
            if isinstance(their, str) and isinstance(our, str) and _short_fraction(their, our):
                return "TIMESTAMP in a snapshot"
        if path.endswith((".typeName", ".typeExpression")) and _NAMES.get(our) == their:
            return "types of tables that were read"
        if row and their == 1900 and our == 0:
            return "YEAR 0000"
        if row and times in ("connect", "isostring") and _outside(our) and not _outside(their):
            return "TIME outside of a day"
        if row and times == "nanoseconds" and _number(our) and not -_MOST <= our <= _MOST:
            return "DATETIME in nanoseconds beyond 64 bits"
        if path.endswith(".source.snapshot") and their is None and our == "false":
            return "snapshot marks without defaults"
        if isinstance(their, str) and isinstance(our, str) and their.replace("\\,", ",") == our:
            return "labels with a comma"
        if row and isinstance(their, str) and isinstance(our, str) and _same_json(their, our):
            return "spaces in JSON documents"
        is_statement = self._truncates or path.startswith(f"{self._prefix} value")
        if path.endswith(".source.row") and our == 0 and is_statement:
            return "rows of statements"
        if path.endswith(".length") and (their, our) in ((None, 1), (0, None)):
            return "sizes that are the default"
        if path.endswith((".default", ".defaultValueExpression")):
            return _default_reason(their, our)
        if (their, our) == ("boolean", "int16"):
            return "BOOLEAN of a statement in the stream"
        if row and type(their) is bool and type(our) is int and their == bool(our):
            return "BOOLEAN of a statement in the stream"
        return None


def _by_topic(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for one in records:
        found.setdefault(one.topic, []).append(one)
    return found


def _head(text: str) -> str:
    """What stands before the payload."""
    start = '{"schema":'
    assert text.startswith(start)
    _, end = json.JSONDecoder().raw_decode(text, len(start))
    head = f'{text[:end]},"payload":'
    assert text.startswith(head)
    return head


def _same_mark(their: Any, our: Any) -> bool:
    """Whether two rows are both the first, or both the last, of their table."""
    marks = (str(one).removesuffix("_in_data_collection") for one in (their, our))
    return len(set(marks)) == 1


def _default_reason(their: Any, our: Any) -> str | None:
    if type(their) is bool and their == our:
        return "BOOLEAN of a statement in the stream"
    if not isinstance(their, str) or not isinstance(our, str):
        return None
    if their.replace("''", "'") == our:
        return "quotes in defaults"
    if their in (our.encode().hex(), _hexadecimal(our)):
        return "hexadecimal defaults"
    if _bytes_of_digits(their, our) or _escaped(their, our):
        return "defaults of binary columns"
    if our.startswith(("0x", "0X")) or our.rstrip("A=").startswith(their.rstrip("A=")):
        return "defaults of binary columns"
    return None


def _hexadecimal(text: str) -> str:
    """A whole number in hexadecimal digits; ``""`` for another text."""
    return f"{int(text):x}" if text.isascii() and text.isdigit() else ""


def _bytes_of_digits(their: str, our: str) -> bool:
    """Whether theirs are the hexadecimal digits of ours as bytes, cut off at the column's length."""
    for read in (base64.b64decode, base64.urlsafe_b64decode, bytes.fromhex):
        try:
            digits, data = read(their), read(our)
        except ValueError:
            continue
        if digits and data.hex().encode().startswith(digits.lower()):
            return True
    return False


def _escaped(their: str, our: str) -> bool:
    """Whether theirs are ours with the zero bytes as SHOW CREATE TABLE writes them."""
    for read in (base64.b64decode, base64.urlsafe_b64decode, bytes.fromhex):
        with contextlib.suppress(ValueError):
            if read(our) != read(their) and read(our) == read(their).replace(b"\\0", b"\0"):
                return True
    return False


def _six_digits(their: float, our: float) -> bool:
    """Whether theirs is what SELECT shows of ours, a FLOAT."""
    return float(f"{our:.6g}") == their


def _short_fraction(their: str, our: str) -> bool:
    """Whether theirs lacks zeros at the end of a time's fraction."""
    head, point, fraction = our.removesuffix("Z").partition(".")
    rest = fraction.rstrip("0")
    return bool(point) and their == head + (f".{rest}" if rest else "") + "Z"


def _four_bytes(their: Any, our: float) -> bool:
    """Whether theirs is what four bytes keep of ours."""
    if their in ("Infinity", "-Infinity"):
        return abs(our) > _MOST_OF_FOUR_BYTES and (our < 0) == (their == "-Infinity")
    if type(their) is not float or abs(our) > _MOST_OF_FOUR_BYTES:
        return False
    return struct.pack("<f", their) == struct.pack("<f", our)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _outside(value: Any) -> bool:
    """Whether a TIME is not one of a day."""
    if isinstance(value, int):
        return not 0 <= value < 86_400_000
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    return found is not None and (bool(found[1]) or int(found[2]) > 23)


def _same_json(their: str, our: str) -> bool:
    if their[:1] not in ("{", "[") or our[:1] not in ("{", "["):
        return False
    try:
        return bool(json.loads(their) == json.loads(our))
    except ValueError:
        return False
