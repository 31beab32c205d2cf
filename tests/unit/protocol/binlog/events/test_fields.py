"""Declared fields: what is generated from them, and the recipe "Add an event" on an invented one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import replica_client
from replica_client.cli.annotation.annotator import Annotator, DeclaredFields
from replica_client.errors import BinlogDecodeError, EncodeError, ShortBufferError
from replica_client.protocol.binlog.event import EventContext
from replica_client.protocol.binlog.events import EVENT_CLASSES, control
from replica_client.protocol.binlog.events.coding import decoder_of, encoder_of
from replica_client.protocol.binlog.events.control import RotateEvent, StartEncryptionEvent
from replica_client.protocol.binlog.events.fields import DeclaredEvent, Field, attributes, walk
from replica_client.protocol.binlog.events.gtids import GtidEvent, MariadbGtidEvent, ViewChangeEvent
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants import event_types
from tests.unit.cli.annotations import uncovered
from tests.unit.protocol.binlog.events.seed import NO_CHECKSUM, with_post_header

DECLARED = sorted(
    (int(code), cls) for code, cls in EVENT_CLASSES.items() if issubclass(cls, DeclaredEvent)
)
IDS = [f"{code}-{cls.__name__}" for code, cls in DECLARED]


@pytest.mark.parametrize(("code", "cls"), DECLARED, ids=IDS)
def test_the_fields_fill_the_attributes(code: int, cls: type[DeclaredEvent]) -> None:
    filled = list(attributes(cls.FIELDS))
    names = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]
    assert len(filled) == len(set(filled)) and set(filled) <= set(names)
    for name in set(names) - set(filled):
        assert names[name].default is not MISSING, name


@pytest.mark.parametrize(("code", "cls"), DECLARED, ids=IDS)
@given(data=st.binary(max_size=120), longer=st.integers(0, 3))
def test_decoded_bytes_are_encoded_again_and_annotated(
    code: int, cls: type[DeclaredEvent], data: bytes, longer: int
) -> None:
    sizes = [one.size for one in walk(cls.FIELDS) if getattr(one, "kind", "") == "post_header"]
    layout = replace(NO_CHECKSUM, post_header_sizes=NO_CHECKSUM.post_header_sizes.ljust(180, b"\0"))
    if sizes:
        layout = with_post_header(layout, code, int(sizes[0]) + longer)
    ctx = EventContext(layout, code)
    try:
        event = cls.decode(ByteReader(data), ctx)
    except (BinlogDecodeError, ShortBufferError, ValueError):
        return
    # A length-encoded integer may be longer than needed; otherwise the bytes are the same.
    again = event.encode(ctx)
    assert again == data or cls is GtidEvent
    assert cls.decode(ByteReader(again), ctx) == event
    annotator = Annotator(data)
    try:
        DeclaredFields(annotator, ctx, cls).annotate()
    except ShortBufferError as error:
        # Status variables and GTID sets are parsed after the event, on demand.
        assert code in (2, 18, 35, 165)
        annotator.fail(error)
    annotator.rest("extra")
    assert uncovered(data, annotator.annotated_bytes) is None


def test_fields_of_older_formats_are_annotated() -> None:
    """Binlog v1 and v3 have shorter post-headers: no status variables, no position."""
    for cls, code, size, data in (
        (QueryEvent, 2, 11, bytes(8) + b"\x02\0\0db\0BEGIN"),
        (RotateEvent, 4, 0, b"next.000002"),
    ):
        ctx = EventContext(with_post_header(NO_CHECKSUM, code, size), code)
        assert cls.decode(ByteReader(data), ctx).encode(ctx) == data
        annotator = Annotator(data)
        DeclaredFields(annotator, ctx, cls).annotate()
        assert uncovered(data, annotator.annotated_bytes) is None


def test_a_cut_field_is_reported_where_it_begins() -> None:
    ctx = EventContext(NO_CHECKSUM)
    with pytest.raises(ShortBufferError, match="sid at offset 1 needs 16 bytes, only 9 are left"):
        GtidEvent.decode(ByteReader(bytes(10)), ctx)


def test_values_that_do_not_fit_are_refused() -> None:
    wrong = (
        StartEncryptionEvent(1, 1, b"short"),
        StartEncryptionEvent(256, 1, bytes(12)),
        GtidEvent(0, bytes(15), 1),
        ViewChangeEvent(bytes(41), 1),
        MariadbGtidEvent(1, 1 << 32, 0),
    )
    for event in wrong:
        with pytest.raises(EncodeError):
            event.encode()
    assert ViewChangeEvent(b"view", 1).encode()[:40] == b"view".ljust(40, b"\0")


def test_a_subclass_with_fields_of_its_own_has_methods_of_its_own() -> None:
    class Longer(RotateEvent):
        FIELDS = (*RotateEvent.FIELDS[:1], *RotateEvent.FIELDS[1:])

    with suppress(ShortBufferError):
        RotateEvent.decode(ByteReader(bytes(9)), EventContext())
    assert vars(Longer)["decode"] is not vars(RotateEvent)["decode"]
    assert Longer.decode(ByteReader(bytes(8) + b"next"), EventContext()).next_file == "next"


def test_generated_functions_are_those_of_the_class() -> None:
    assert decoder_of(RotateEvent).__qualname__ == "RotateEvent.decode"
    assert encoder_of(RotateEvent).__module__ == RotateEvent.__module__


def test_every_version_is_one_of_a_server() -> None:
    versions = {
        one.since
        for _, cls in DECLARED
        for one in walk(cls.FIELDS)
        if isinstance(one, Field) and one.since
    }
    assert versions
    assert all(version[0].isdigit() or version.startswith("MariaDB") for version in versions)


# What the recipe in CONTRIBUTING.md says, done to a copy of the package: two files and a golden.
CLASS = '''

@dataclass(frozen=True, slots=True)
class WeatherEvent(DeclaredEvent):
    """The weather at the source.

    Spec: none; it is invented.
    """

    FIELDS = (
        uint("flags", 1, "1: humidity follows"),
        *post_header(1),
        prefixed("station", 1, "name", is_text=True),
        sint("temperature", 2, "1/100 °C"),
        when("flags & 1", uint("humidity", 1, "%", since="12.0")),
        EXTRA,
    )
    INFO = "{0.temperature}"

    flags: int
    station: bytes
    temperature: int
    humidity: int | None = None
    extra_post_header: bytes = b""
    extra: bytes = b""
'''
GOLDEN = bytes.fromhex("01044b69656c16ff4d")
PROGRAM = """
import json
from replica_client.protocol.binlog.event import BinlogFormat
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events import WeatherEvent
from replica_client.protocol.binlog.event import EventHeader
from replica_client.protocol.binlog.layout import CLASSES
from replica_client.cli.annotation.whole_event import annotate_event
from replica_client.cli.event_lines import event_fields
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.server.show_events import event_info, event_name

layout = BinlogFormat(post_header_sizes=bytes([*BinlogFormat().post_header_sizes, 1]))
header = EventHeader(1, 43, 1, 0, 0, 0)
made = BinlogEvent(header, WeatherEvent(1, b"Kiel", -234, 77))
data = encode_event(made, layout)
decoder = BinlogDecoder(format=layout)
event = decoder.decode(data, 4)
assert isinstance(event.body, WeatherEvent) and encode_event(event, layout) == data
print(json.dumps({
    "body": data[19:-4].hex(),
    "role": CLASSES[43],
    "fields": event_fields(event),
    "name": event_name(43),
    "info": event_info(event, ServerFlavor.MYSQL),
    "annotated": [[one.field, one.value, one.unit] for one in annotate_event(data, event, decoder)],
}))
"""


def test_the_recipe_adds_an_invented_event(tmp_path: Path) -> None:
    package = Path(replica_client.__file__).parent
    copy = tmp_path / "replica_client"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    types = copy / Path(event_types.__file__).relative_to(package)
    text = types.read_text(encoding="utf-8")
    text = text.replace(
        "    GTID_TAGGED_LOG_EVENT = 42\n",
        "    GTID_TAGGED_LOG_EVENT = 42\n    WEATHER_EVENT = 43\n",
    ).replace(
        "        EventType.ANNOTATE_ROWS_EVENT:",
        '        EventType.WEATHER_EVENT: ("control.WeatherEvent", EventClass.OUTSIDE),\n'
        "        EventType.ANNOTATE_ROWS_EVENT:",
    )
    types.write_text(text, encoding="utf-8")
    family = copy / Path(control.__file__).relative_to(package)
    source = family.read_text(encoding="utf-8").replace("    rest,\n", "    rest,\n    sint,\n", 1)
    family.write_text(source + CLASS, encoding="utf-8")
    result = subprocess.run(
        (sys.executable, "-c", PROGRAM),
        cwd=tmp_path,
        env=os.environ | {"REPLICA_CLIENT_IMPL": "python", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not result.returncode, result.stderr
    shown = json.loads(result.stdout)
    assert shown["body"] == GOLDEN.hex()
    assert shown["role"] == 1
    assert shown["fields"] == {
        "flags": 1,
        "station": "Kiel",
        "temperature": -234,
        "humidity": 77,
    }
    assert (shown["name"], shown["info"]) == ("Weather", "-234")
    assert ["temperature", "-234", "1/100 °C"] in shown["annotated"]
    assert ["humidity", "77", "%"] in shown["annotated"]
