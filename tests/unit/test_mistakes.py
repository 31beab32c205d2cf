"""Mistakes of a first day: each is one line with the value, where it was given, and what to give instead."""

import asyncio
import gzip
import inspect
import io
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client import testing
from replica_client.errors import TRACEBACKS_VARIABLE
from replica_client.options import OPTIONS, check_argument
from tests.recipes.served import served

DATA = Path(rc.__file__).parent / "testing" / "data"
F = str(DATA / "shop-bin.000001")
SECRET = "s3cret-of-mistakes"
U = f"mysql://repl:{SECRET}@127.0.0.1:1/"
NAMES = {"io": io, "rc": rc, "F": F, "U": U}
PATTERNS = 'give a pattern such as "shop.*"'
START = "give a position (rc.Position)"

CONFIGURATION = {
    "rc.connect(5)": "a URL such as mysql://user@host/",
    "rc.connect('')": "a source's URL begins with mysql:// or mariadb://",
    "rc.connect('db1')": "a source's URL begins with mysql:// or mariadb://",
    "rc.connect('postgres://db1/')": "a source's URL begins with mysql:// or mariadb://",
    "rc.connect(F)": "a source's URL begins with mysql:// or mariadb://",
    "rc.connect([])": "the list of hosts is empty",
    "rc.connect(U.replace(':1/', ':99999/'))": "percent-encode special characters",
    "rc.connect(U.replace(':1/', ':x/'))": "percent-encode special characters",
    "rc.connect(U + 'shop')": "write tables=['shop.*']",
    "rc.connect(U + '?nosuch=1')": "known are allow_public_key_retrieval",
    "rc.connect(U, tables=5)": PATTERNS,
    "rc.connect(U, tables=[5])": PATTERNS,
    "rc.connect(U, tables={'shop': 'orders'})": PATTERNS,
    "rc.connect(U, tables=[])": "give patterns, or None for all",
    "rc.connect(U, tables='orders')": "write database.table, for example orders.*",
    "rc.connect(U, tables='shop.`a')": "a backquote that is not closed",
    "rc.connect(U, exclude=5)": PATTERNS,
    "rc.connect(U, columns=5)": 'give a list of names, or {"shop.orders": ["id", "total"]}',
    "rc.connect(U, columns='id')": "give a list of names",
    "rc.connect(U, columns={'shop.orders': 'id'})": "give a list of names",
    "rc.connect(U, start=('f', 4))": START,
    "rc.connect(U, start=4)": START,
    "rc.connect(U, start=b'x')": START,
    "rc.connect(U, start='yesterday')": "give earliest, latest, FILE:OFFSET",
    "rc.connect(U, start='binlog.000001')": "give earliest, latest, FILE:OFFSET",
    "rc.connect(U, stop_at_end='yes')": "give True or False",
    "rc.connect(U, server_id='x')": "a number from 1 to 4294967295",
    "rc.connect(U, server_id=True)": "a number from 1 to 4294967295",
    "rc.connect(U, server_id=0)": "a number from 1 to 4294967295",
    "rc.connect(U, server_id=2**32)": "a number from 1 to 4294967295",
    "rc.connect(U, heartbeat_period=0)": "give seconds, more than 0",
    "rc.connect(U, heartbeat_period=-1)": "give seconds, more than 0",
    "rc.connect(U, heartbeat_period='10')": "give seconds, more than 0",
    "rc.connect(U, heartbeat_period=float('nan'))": "give seconds, more than 0",
    "rc.connect(U, read_timeout=0)": "or None for three heartbeats",
    "rc.connect(U, read_timeout='x')": "or None for three heartbeats",
    "rc.connect(U, tls=True)": 'a mode such as "verify-identity"',
    "rc.connect(U, tls='yes')": 'give "disabled", "preferred", "required"',
    "rc.connect(U, compression='lz4')": "give zlib, zstd or nothing",
    "rc.connect(U, compression=True)": "give zlib, zstd or nothing",
    "rc.connect(U, semi_sync='on')": "give True or False",
    "rc.connect(U, position_store=5)": "the path of a file, or a position store",
    "rc.connect(U, save_interval='x')": "give seconds, 0 or more",
    "rc.connect(U, save_interval=-1)": "give seconds, 0 or more",
    "rc.connect(U, reconnect=5)": "give rc.ReconnectPolicy(…), or attempts=N",
    "rc.connect(U, attempts=-1)": "0 or more, or None for no end",
    "rc.connect(U, attempts='3')": "a number of tries",
    "rc.connect(U, attempts=1.5)": "a number of tries",
    "rc.connect(U, options={'temporals': 'python'})": "give rc.DecodeOptions(…)",
    "rc.connect(U, assembly={})": "give rc.AssemblyOptions(…)",
    "rc.connect(U, assembly=rc.AssemblyOptions(rc.Selection()), tables='a.*')": "give one of both",
    "rc.connect(U, schema={})": "rc.SchemaHistory",
    "rc.connect(U, full_rows='x')": "give True or False",
    "rc.connect(U, record_losses='nosuch')": "is not one of all, statement",
    "rc.connect(U, record_losses=5)": "give a list of kinds",
    "rc.connect(U, on_statement='skip')": 'give "error" or "deliver"',
    "rc.connect(U, on_unknown_table=True)": 'give "error" or "positional"',
    "rc.connect(U, invalid_text='ignore')": 'give "strict", "replace" or "bytes"',
    "rc.connect(U, temporals=True)": 'give "lossless" or "python"',
    "rc.connect(U, transform='x')": "it must be a table of keys",
    "rc.connect(U, transform=[{'nosuch': 1}])": "there are tables, keep, drop",
    "rc.follow(U, heartbeat_period=0)": "give seconds, more than 0",
    "rc.follow(U).acknowledge(5)": "takes a position, a transaction, a change or nothing",
    "rc.follow(U).changes(timeout='x')": "timeout is of type str: give a number",
    "rc.open_binlog(U)": "follow it with rc.follow(url)",
    "rc.open_binlog('nosuch')": "no such file; give the path of a binlog",
    "rc.open_binlog(5)": "a binlog is a path, a list of paths",
    "rc.open_binlog(None)": "a binlog is a path, a list of paths",
    "rc.open_binlog([])": "no binlog file was given",
    "rc.open_binlog(F, tables=5)": PATTERNS,
    "rc.open_binlog(F, start='latest')": "from a position or a time",
    "rc.open_binlog(F, start=('f', 4))": START,
    "rc.open_binlog(F, start='nosuch.000001:4')": "give a position of these files",
    "rc.open_binlog(F, keys='x')": "a dict of bytes by key id",
    "rc.open_binlog(F, threads=0)": "a whole number, at least 1",
    "rc.open_binlog(F, threads='2')": "a whole number, at least 1",
    "rc.open_binlog(F, lower_case_table_names=5)": "give 0, 1 or 2",
    "rc.open_binlog(F, options=5)": "give rc.DecodeOptions(…)",
    "rc.open_binlog(F, assembly=5)": "give rc.AssemblyOptions(…)",
    "rc.open_binlog(F, schema=5)": "rc.SchemaHistory",
    "rc.open_binlog(F, losses=5)": "rc.LossLedger",
    "rc.open_binlog(F, full_rows=5)": "give True or False",
    "rc.open_binlog(io.StringIO('x'))": "gives text; open it with open(path, 'rb')",
    "rc.open_archive(F, write_indexes=False).history('shop.orders', None)": "give the key of one row",
    "rc.open_archive(F, write_indexes=False).find('shop.orders', kind='inserted')": "did you mean insert",
    "rc.scan_binlog(5)": "a binlog is a path, a list of paths",
    "rc.scan_binlog(F, where=5)": "a condition as text",
    "rc.scan_binlog(F, where='id ==')": "character 5: expected",
    "rc.scan_binlog(F, max_rows=1)": "at least 2",
    "rc.scan_binlog(F, since=('f', 4))": START,
    "rc.open_archive('nosuch')": "no such file; give the path of a binlog",
    "rc.FilePositionStore(5)": "give a path, not int",
    "rc.FilePositionStore('/nosuch/p').load()": "its directory does not exist: create it",
    "rc.FilePositionStore('/tmp').load()": "choose the path of a file",
    "rc.Position(5, 5)": 'for example Position("binlog.000024", 1472)',
    "rc.Position('f', 'x')": 'for example Position("binlog.000024", 1472)',
    "rc.Position('f', -1)": "out of range",
    "rc.Position.parse('x')": "expected FILE:OFFSET, e.g. binlog.000024:1472",
    "rc.Position.parse(5)": "from text, not int",
    "rc.GtidSet.parse(5)": "from text, not int",
    "rc.MariadbGtidSet.parse('x')": "not a MariaDB GTID",
    "rc.ReconnectPolicy(attempts='x')": "a number of tries",
    "rc.ReconnectPolicy(first_delay='x')": "give seconds, 0 or more",
    "rc.DecodeOptions(invalid_text='x')": 'give "strict", "replace" or "bytes"',
    "rc.AssemblyOptions(5)": "give rc.Selection(tables) first",
    "rc.Selection(5)": PATTERNS,
}
MISUSE = {
    "rc.connect(U, table='shop.*')": (TypeError, "connect() has no argument 'table': did you mean tables=?"),
    "rc.follow(U, table='shop.*')": (TypeError, "follow() has no argument 'table': did you mean tables=?"),
    "rc.open_binlog(F, table='a.*')": (TypeError, "open_binlog() has no argument 'table'"),
    "rc.follow(U).get()": (RuntimeError, "use `with follow(…) as stream:`"),
    "rc.follow(U).flush()": (RuntimeError, "use `with follow(…) as stream:`"),
    "rc.follow(U).acknowledge()": (RuntimeError, "use `with follow(…) as stream:`"),
    "rc.follow(U).state()": (RuntimeError, "use `with follow(…) as stream:`"),
    "next(rc.follow(U).changes())": (RuntimeError, "use `with follow(…) as stream:`"),
    "rc.connect(U).changes()": (RuntimeError, "use it in an `async with` block"),
    "rc.connect(U).__enter__()": (TypeError, "write `async with rc.connect(…) as stream:`"),
    **{
        f"{code}.__{name}__()": (TypeError, words)
        for code, words in {
            "rc.open_binlog(F)": "write `for change in rc.open_binlog(…).changes():`",
            "rc.open_archive(F, write_indexes=False)": "`for change in archive.find(…):`",
            "rc.open_archive(F, write_indexes=False).find('shop.orders')": "write `for change in",
            "rc.scan_binlog(F)": "write `tables = rc.scan_binlog(…)`",
            "rc.scan_binlog(F)['shop.customers']": "`pyarrow.table(table)`",
        }.items()
        for name in ("enter", "exit", "aenter", "aexit", "aiter", "await")
    },
    "list(rc.open_archive(F, write_indexes=False))": (TypeError, "`for change in archive.find(…):`"),
    "next(rc.open_binlog(F).changes()).after['nosuch']": (KeyError, "there are id, name, email"),
    "rc.scan_binlog(F)['nosuch.t']": (KeyError, "there is shop.customers"),
}  # fmt: skip


def _members(directory: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Public functions and methods by name, with the arguments that each call needs."""
    archive = rc.open_archive(F, write_indexes=False)
    reader, stream, position = rc.open_binlog(F), rc.follow(U), rc.Position("f", 4)
    table = rc.scan_binlog(F)["shop.customers"]
    gtids, domains, orders = rc.GtidSet(), rc.MariadbGtidSet(), {"table": "shop.orders"}
    given: dict[Callable[..., Any], dict[str, Any]] = {
        rc.connect: {"url": U},
        rc.open_binlog: {"source": F},
        rc.scan_binlog: {"source": F},
        rc.open_archive: {"source": F},
        archive.find: {},
        archive.history: {**orders, "key": 1},
        archive.as_of: {**orders, "at": "2026-01-01"},
        reader.changes: {},
        reader.batches: {},
        stream.changes: {},
        stream.batches: {},
        table.select: {},
        table.filter: {},
        gtids.add: {},
        gtids.contains: {},
        gtids.union: {},
        gtids.intersection: {},
        gtids.difference: {},
        gtids.issubset: {},
        gtids.isdisjoint: {},
        domains.add: {},
        domains.union: {},
        rc.Gtid.parse: {},
        rc.GtidSet.parse: {},
        rc.GtidSet.from_json: {},
        rc.MariadbGtid.parse: {},
        rc.MariadbGtidSet.parse: {},
        rc.Position.parse: {},
        rc.Position.from_json: {},
        rc.MemoryPositionStore().save: {"position": position},
        testing.make_change: {**orders, "after": {"id": 1}},
        testing.make_transaction: {},
        testing.write_binlog: {"path": directory, "items": ["BEGIN"]},
    }
    members = {function.__qualname__: (function, needed) for function, needed in given.items()}
    classes: dict[type, dict[str, Any]] = {
        rc.Position: {"file": "f", "offset": 4},
        rc.Selection: {},
        rc.ReconnectPolicy: {},
        rc.DecodeOptions: {},
        rc.AssemblyOptions: {"selection": rc.Selection()},
        rc.FilePositionStore: {},
        rc.MemoryPositionStore: {},
        rc.GtidSet: {},
    }
    return members | {one.__name__: (one, needed) for one, needed in classes.items()}


WRONG = (
    5,
    -1,
    1.5,
    float("nan"),
    b"x",
    "nosuch",
    "",
    object(),
    [],
    [5],
    {},
    {"a": 5},
    True,
    (),
    ("f", 4),
)
# What a key is compared with may have any type; the last one is ours alone.
ANY = {("Archive.find", "key"), ("Archive.history", "key"), ("AssemblyOptions", "withholds_texts")}
ANY |= {("Archive.find", "before"), ("Archive.find", "after"), ("Archive.as_of", "copy")}


@pytest.mark.slow
def test_each_argument_of_each_function_refuses_what_it_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong values of many types: our error in one line, or what the argument takes."""
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)  # a value that is taken as a path is one of this directory
    wrong, refused = [], 0
    for name, (function, needed) in _members(tmp_path).items():
        parameters = inspect.signature(function).parameters.values()
        for argument in [one.name for one in parameters if one.kind is not one.VAR_POSITIONAL]:
            for value in WRONG:
                case = f"{name}({argument}={value!r})"
                try:
                    given = function(**{**needed, argument: value})
                except rc.ReplicaClientError as error:
                    refused += 1
                    if "\n" in str(error) or SECRET in str(error):
                        wrong.append(f"{case}: {error}")
                except Exception as error:
                    wrong.append(f"{case}: {error!r}")
                else:
                    if type(value) is object and (name, argument) not in ANY:
                        wrong.append(f"{case}: {type(given).__name__}, silently")
    assert not wrong, "\n".join(wrong)
    assert refused > 1500


def frames_of_ours(error: BaseException) -> int:
    """The frames of this package that a program's traceback shows."""
    text = "".join(traceback.format_exception(error))
    return text.count(f'File "{Path(rc.__file__).parent}')


@pytest.mark.parametrize("code", CONFIGURATION)
def test_a_wrong_value_is_refused_where_it_is_given(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TRACEBACKS_VARIABLE)
    if "scan_binlog" in code:
        pytest.importorskip("pyarrow")
    with pytest.raises(rc.ReplicaClientError) as caught:
        eval(code, NAMES)
    said = str(caught.value)
    assert CONFIGURATION[code] in said
    assert "\n" not in said
    assert SECRET not in said
    assert frames_of_ours(caught.value) <= 3


def test_a_damaged_file_ends_in_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each iterator of files and streams shows few frames of ours; all where one asks for them."""
    file = tmp_path / "shop-bin.000001"
    damaged = bytearray(Path(F).read_bytes())
    damaged[-40] ^= 1
    file.write_bytes(damaged)
    monkeypatch.delenv(TRACEBACKS_VARIABLE)
    with served(file) as source:
        for code in (
            "list(rc.open_binlog(F).changes())",
            "list(rc.open_binlog(F).transactions())",
            "list(rc.open_binlog(F).events())",
            "list(rc.open_binlog(F))",
            "list(rc.follow(U, start='earliest', stop_at_end=True))",
            "list(rc.open_archive(F, write_indexes=False).find('shop.orders'))",
        ):
            with pytest.raises(rc.BinlogDecodeError) as caught:
                eval(code, {"rc": rc, "F": str(file), "U": source.url})
            assert frames_of_ours(caught.value) <= 3, code
    monkeypatch.setenv(TRACEBACKS_VARIABLE, "full")
    with pytest.raises(rc.BinlogDecodeError) as caught:
        list(rc.open_binlog(file).changes())
    assert frames_of_ours(caught.value) > 3


def test_calls_in_the_wrong_order_say_what_to_do(tmp_path: Path) -> None:
    with served() as source:
        stream = rc.follow(source.url, position_store=str(tmp_path / "p"))
        with stream:
            with pytest.raises(RuntimeError, match="opened before; call follow"):
                stream.open()
            with pytest.raises(rc.PositionError, match="another stream uses it"):
                rc.follow(source.url, position_store=str(tmp_path / "p")).open()
            with pytest.raises(rc.ConfigError, match="not str"):
                stream.acknowledge("shop-bin.000001:4")  # type: ignore[arg-type]
            stream.changes()
            with pytest.raises(rc.ConfigError, match="this stream is read by changes"):
                stream.transactions()
        for call in (stream.acknowledge, stream.flush, stream.get, stream.state):
            with pytest.raises(RuntimeError, match="the stream is closed; call follow"):
                call()
        with pytest.raises(RuntimeError, match="opened before; call follow"), stream:
            pass

        async def plain_loop() -> None:
            async with rc.connect(source.url) as live:
                for _ in live.changes():  # type: ignore[attr-defined]
                    pass

        with pytest.raises(TypeError, match="needs `async for`"):
            asyncio.run(plain_loop())


def test_columns_that_a_table_has_not_are_named(caplog: pytest.LogCaptureFixture) -> None:
    list(rc.open_binlog(F, tables="shop.customers", columns=["nosuch"]).changes())
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.startswith("columns: shop.customers has none of nosuch; it has id, name, email")


@pytest.mark.parametrize("code", MISUSE)
def test_misuse_says_what_to_write(code: str) -> None:
    if "scan_binlog" in code:
        pytest.importorskip("pyarrow")
    kind, words = MISUSE[code]
    with pytest.raises(kind) as caught:
        eval(code, NAMES)
    assert words in str(caught.value)


def test_keys_are_in_no_message() -> None:
    with pytest.raises(rc.ReplicaClientError) as caught:
        rc.open_binlog(F, keys={"1": SECRET})  # type: ignore[dict-item]
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "name", [name for name, option in OPTIONS.items() if option.kind.words != "a value"]
)
def test_no_argument_takes_an_object_of_no_type(name: str) -> None:
    with pytest.raises(rc.ConfigError, match=f"{name}=(<object object at .*|…): give ."):
        check_argument(name, object())


def test_a_compressed_file_is_named(tmp_path: Path) -> None:
    packed = tmp_path / "shop-bin.000001"
    packed.write_bytes(gzip.compress(Path(F).read_bytes()))
    with pytest.raises(rc.BinlogDecodeError, match="it is compressed, unpack it with gunzip first"):
        list(rc.open_binlog(packed).changes())


def test_what_messages_advise_is_taken() -> None:
    """The keywords that messages name are arguments of all three functions."""
    advised = {"on_statement": "deliver", "on_unknown_table": "positional"}
    rc.connect(U, **advised, invalid_text="replace", temporals="python")
    reader = rc.open_binlog(F, **advised, invalid_text="replace", temporals="python")
    assert len(list(reader.changes())) == 36


COMMANDS = {
    "": (2, "Follow:"),
    "nosuch": (2, "No such command"),
    "changes": (2, "Missing argument 'SOURCE'"),
    "changes nosuch": (1, "nosuch: No such file or directory; check the path"),
    "changes F --nosuch": (2, "No such option"),
    "changes F --tables orders": (2, "write database.table, for example orders.*"),
    "changes F --start yesterday": (2, "give earliest, latest, FILE:OFFSET"),
    "changes F --lower-case-table-names 3": (2, "--lower-case-table-names: 3: give 0, 1 or 2"),
    "sql F --threads 0": (2, "--threads: 0: give a whole number, at least 1"),
    "changes F --json --csv": (2, "give one of --json and --csv"),
    "changes F U": (2, "give one URL, or one or more paths"),
    "changes Ushop": (2, "write --table 'shop.*'"),
    "changes U": (1, "is the server up, and are host and port right?"),
    "changes F --position-file /nosuch/p": (1, "its directory does not exist: create it"),
    "doctor nosuch": (2, "give a mysql:// or mariadb:// URL"),
    "run nosuch.toml": (1, "check the path"),
    "annotate F --position 5": (1, "one begins at"),
    "lake": (2, "compact"),
}


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS)
def test_a_wrong_command_is_one_message(words: str) -> None:
    status, said = COMMANDS[words]
    given = [word.replace("F", F) if word == "F" else word for word in words.split()]
    given = [word.replace("U", U, 1) if word.startswith("U") else word for word in given]
    done = subprocess.run(
        [sys.executable, "-m", "replica_client", *given],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr
