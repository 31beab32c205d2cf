"""Named offsets are where events have their fields; tables of event types forget none."""

import ast
import re
from pathlib import Path

import pytest

import replica_client
from replica_client._compiled import COMPILED_MODULES
from replica_client.protocol.binlog import layout
from replica_client.protocol.binlog.event import BinlogEvent, EventHeader
from replica_client.protocol.binlog.events import EVENT_CLASSES
from replica_client.protocol.binlog.events.gtids import GtidEvent, MariadbGtidEvent, XidEvent
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.constants.event_types import EVENTS, EventType
from replica_client.stream.position import groups

PACKAGE = Path(replica_client.__file__).parent
NAME = re.compile(r"^ {4}([A-Z][A-Z0-9_]*) = (\w+)$", re.MULTILINE)


def named(path: Path) -> dict[str, dict[str, int]]:
    """The numbers of a ``.pxd`` file by enum; ``""`` for those of none."""
    text = path.read_text(encoding="utf-8")
    blocks = re.split(r"^cdef enum ?(\w*):$", text, flags=re.MULTILINE)[1:]
    return {
        name: {key: int(value, 0) for key, value in NAME.findall(body)}
        for name, body in zip(blocks[::2], blocks[1::2], strict=True)
    }


def test_compiled_numbers_are_those_of_python() -> None:
    found = named(PACKAGE / "protocol" / "binlog" / "layout.pxd")
    numbers = {
        name: value
        for name, value in vars(layout).items()
        if name.isupper() and type(value) is int and not name.startswith("_")
    }
    assert found.pop("") == numbers
    found |= named(PACKAGE / "stream" / "position" / "groups.pxd")
    enums = {"EventClass": layout.EventClass, "State": groups.State, "Ending": groups.Ending}
    assert found == {name: {one.name: int(one) for one in enum} for name, enum in enums.items()}


def test_no_table_forgets_a_type_of_events() -> None:
    """A type that is new in :class:`EventType` has to be in each of them."""
    known = set(EventType) - {EventType.UNKNOWN_EVENT}
    assert set(EVENTS) == known
    assert set(map(int, EVENT_CLASSES)) == known
    rows = {code for code in known if layout.CLASSES[code] == layout.EventClass.ROWS}
    assert rows == set(layout._FORMS) == layout.ROWS_TYPES
    for code in known:
        decoded = EVENT_CLASSES[code]
        assert (code in rows) == issubclass(decoded, RowsEvent), code


@pytest.mark.parametrize("code", sorted(layout.ROWS_TYPES))
def test_forms_of_rows_are_those_that_the_decoder_knows(code: int) -> None:
    name = EventType(code).name
    form = layout.ROWS_FORMS[code]
    kinds = ("WRITE", "UPDATE", "DELETE")
    assert kinds[form & layout.ROWS_KIND] in name
    assert bool(form & layout.ROWS_COMPRESSED) == ("COMPRESSED" in name)
    assert bool(form & layout.ROWS_OTHER) == (name.startswith(("PRE_GA", "PARTIAL")))
    event = RowsEvent(kinds[form & layout.ROWS_KIND].lower(), code, 9, 3, b"", 2, b"\3", None, b"")
    assert event.table_id == 9


def number(data: bytes, offset: int, size: int) -> int:
    return int.from_bytes(data[offset : offset + size], "little")


def test_offsets_of_the_header() -> None:
    data = EventHeader(1, 2, 3, 4, 5, 0x20).encode()
    offsets = {
        layout.TIMESTAMP_OFFSET: (4, 1),
        layout.TYPE_OFFSET: (1, 2),
        layout.SERVER_ID_OFFSET: (4, 3),
        layout.EVENT_SIZE_OFFSET: (4, 4),
        layout.NEXT_POSITION_OFFSET: (4, 5),
        layout.FLAGS_OFFSET: (2, layout.ARTIFICIAL_FLAG),
    }
    for offset, (size, value) in offsets.items():
        assert number(data, offset, size) == value
    assert len(data) == layout.HEADER_SIZE


def test_offsets_of_gtids() -> None:
    sid = bytes(range(16))
    data = GtidEvent(1, sid, 1 << 62, 2, 11, 12, 13, 13, 14, 80000, 80000).encode()
    assert data[layout.GTID_FLAGS_OFFSET] == 1
    at = layout.GTID_SID_OFFSET
    assert data[at : at + layout.GTID_SID_SIZE] == sid
    assert number(data, layout.GTID_NUMBER_OFFSET, 8) == 1 << 62
    assert data[layout.GTID_NUMBER_SIGN_OFFSET] == 0x40
    assert data[layout.GTID_CLOCK_OFFSET] == layout.LOGICAL_CLOCK
    assert number(data, layout.GTID_LAST_COMMITTED_OFFSET, 8) == 11
    assert number(data, layout.GTID_SEQUENCE_OFFSET, 8) == 12
    assert number(data, layout.GTID_TIMESTAMP_OFFSET, layout.GTID_TIMESTAMP_SIZE) == 13
    data = MariadbGtidEvent(sequence=1, domain_id=2, flags=layout.MARIADB_COMMIT_ID, commit_id=3)
    body = data.encode()
    assert number(body, layout.MARIADB_SEQUENCE_OFFSET, 8) == 1
    assert number(body, layout.MARIADB_DOMAIN_OFFSET, 4) == 2
    assert body[layout.MARIADB_FLAGS_OFFSET] == layout.MARIADB_COMMIT_ID
    assert number(body, layout.MARIADB_FIELDS_OFFSET, layout.MARIADB_COMMIT_ID_SIZE) == 3


def test_offsets_of_statements() -> None:
    data = QueryEvent(7, 8, 0, b"", b"shop", b"BEGIN").encode()
    assert number(data, layout.QUERY_THREAD_OFFSET, 4) == 7
    assert number(data, layout.QUERY_EXEC_TIME_OFFSET, 4) == 8
    assert data[layout.QUERY_DATABASE_SIZE_OFFSET] == 4
    assert number(data, layout.QUERY_STATUS_SIZE_OFFSET, 2) == 0
    assert data[layout.query_text(data, 0) :] == b"BEGIN"
    assert len(XidEvent(5).encode()) == layout.XID_SIZE


# What reads events without decoding them.
FAST_PATH = [
    PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
    for name in COMPILED_MODULES
    if name.split(".")[1] == "readers" or name.endswith(("check_fast_path", "event_text"))
]


def _bare(node: ast.expr) -> bool:
    """Whether an offset has a number in it beyond the next byte or one mark's end."""
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, (ast.Add, ast.Sub))
        and isinstance(part.right, ast.Constant)
        and isinstance(part.right.value, int)
        and part.right.value > 1
        for part in ast.walk(node)
    )


@pytest.mark.parametrize("path", FAST_PATH, ids=lambda path: path.stem)
def test_no_offset_and_no_type_is_a_bare_number(path: Path) -> None:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if node.value.id in ("raw", "data") and _bare(node.slice):
                found.append(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id.startswith(("load_", "same_bytes")) and any(map(_bare, node.args)):
                found.append(node.lineno)
        elif isinstance(node, ast.Compare):
            names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            numbers = [
                one.value
                for one in (node.left, *node.comparators)
                if isinstance(one, ast.Constant) and isinstance(one.value, int)
            ]
            if names & {"code", "type_code"} and any(value > 1 for value in numbers):
                found.append(node.lineno)
    assert not found, f"{path.name}: {found}"


def test_classes_are_those_of_decoded_events() -> None:
    """Each class that a decoded event can have is one that its type allows."""
    refined = {
        layout.EventClass.ROWS: {layout.EventClass.STATEMENT, layout.EventClass.PART},
        layout.EventClass.XA_PREPARE: {layout.EventClass.COMMIT, layout.EventClass.PREPARE},
    }

    class Body:
        flags = 0
        one_phase = False
        query = b"INSERT INTO t VALUES (1)"

    for code in EventType:
        event = BinlogEvent(EventHeader(1, code, 1, 19, 0, 0), Body())
        found = groups.class_of(event)
        by_type = layout.EventClass(layout.CLASSES[code])
        if by_type < layout.EventClass.ROWS:
            assert found is by_type
        elif by_type in refined:
            assert found in refined[by_type]
        elif by_type is layout.EventClass.MARIADB_GTID:
            assert found is layout.EventClass.GTID_BEGIN
        else:
            assert found is layout.EventClass.STATEMENT
