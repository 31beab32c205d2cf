"""Questions by commit time to an archive of a real server, against what the server's own mysqlbinlog says of its files.

Several sessions in three time zones run transactions that take seconds and end in another order than they began, with
rotations between. The times of the questions are copied out of answers, also as the text that each output prints. The
client's own time zone changes between questions. The model is made of the text of the server's own program, and shares
no code with the reader.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import replica_client as rc
from replica_client.cli.main import main
from replica_client.errors import ConfigError
from replica_client.lake.lake_past import LakePast
from tests.servers.local import SCRIPT, LocalServer
from tests.spark.change_logs import lake_of, typed_log

_ZONES = ("+00:00", "+05:30", "-03:00")
_CLIENT_ZONES = ("UTC", "Asia/Kolkata", "America/Sao_Paulo")
_SHOWN_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d:\d\d)?")
_HEAD = re.compile(r"#(\d{6})\s+(\d+):(\d\d):(\d\d) server id \d+\s+end_log_pos \d+.*?\t(.*)")
_COMMITTED = re.compile(r"immediate_commit_timestamp=(\d+)")
_MARIADB_GTID = re.compile(r"GTID (\d+-\d+-\d+)")
_MYSQL_GTID = re.compile(r"SET @@SESSION.GTID_NEXT= '([^']+)'")
_CELL = re.compile(r"###\s+@(\d+)=(-?\d+|NULL)")
_LAST = 4_000_000_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Cells = tuple[int | None, ...]
Change = tuple[str, Cells | None, Cells | None]


@dataclass
class Told:
    """A transaction as the server's own program tells it."""

    gtid: str
    micros: int = 0
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True)
class History:
    """A history on a server, and where it is kept.

    Attributes:
        server: the server.
        table: the table, ``database.name``.
        files: its binlog files, in order.
        index: the directory of the indexes.
        lake: the directory with a lake of the table.
        model: its transactions.
        logs_micros: whether the server states commit times in microseconds.
    """

    server: LocalServer
    table: str
    files: Sequence[Path]
    index: Path
    lake: Path
    model: Sequence[Told]
    logs_micros: bool

    @property
    def archive(self) -> Sequence[object]:
        """The arguments of commands that read an archive."""
        return [*self.files, "--index-directory", self.index]


def told_by_server(name: str, files: Sequence[Path], table: str) -> list[Told]:
    """Return the transactions with changes of a table, by the text of mysqlbinlog."""
    kind, tool = (name, "mariadb-binlog") if "maria" in name else ("mysql-9.7", "mysqlbinlog")
    command = [sys.executable, str(SCRIPT), "tool", kind, tool, "-v", "--base64-output=DECODE-ROWS"]
    text = subprocess.run(
        [*command, *map(str, files)],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
        env={"TZ": "UTC", "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
    ).stdout
    database, _, plain = table.partition(".")
    found: list[Told] = []
    here: Told | None = None
    stated = second = 0
    cells: list[dict[int, int | None]] = []
    verb = ""

    def end_change() -> None:
        nonlocal verb, cells
        if verb and here is not None:
            rows = [tuple(one[at] for at in sorted(one)) for one in cells]
            before = None if verb == "INSERT" else rows[0]
            after = None if verb == "DELETE" else rows[-1]
            here.changes.append((verb.lower(), before, after))
        verb, cells = "", []

    for line in text.splitlines():
        head = _HEAD.match(line)
        if head is not None:
            end_change()
            day = head[1]
            hour, minute, of_minute = (int(one) for one in head.groups()[1:4])
            date = (2000 + int(day[:2]), int(day[2:4]), int(day[4:]))
            moment = datetime(*date, hour, minute, of_minute, tzinfo=UTC)
            second = int((moment - _EPOCH).total_seconds())
            if committed := _COMMITTED.search(line):
                stated = int(committed[1])
            if gtid := _MARIADB_GTID.match(head[5]):
                here, stated = Told(gtid[1]), 0
            if head[5].startswith("Xid =") and here is not None:
                here.micros = stated or second * 1_000_000
                found.append(here)
                here, stated = None, 0
        elif gtid := _MYSQL_GTID.match(line):
            here = Told(gtid[1])
        elif line.startswith("### ") and (words := line.split())[1] in (
            "INSERT",
            "UPDATE",
            "DELETE",
        ):
            end_change()
            verb = words[1] if words[-1] == f"`{database}`.`{plain}`" else ""
        elif verb and line.strip() in ("### SET", "### WHERE"):
            cells.append({})
        elif verb and (cell := _CELL.match(line)):
            cells[-1][int(cell[1])] = None if cell[2] == "NULL" else int(cell[2])
    return [one for one in found if one.changes]


def make_history(server: LocalServer, rng: random.Random, table: str, steps: int) -> None:
    """Run transactions in three sessions that begin, wait and end between each other."""
    sessions = [server.connect() for _ in _ZONES]
    open_since: list[int] = [0] * len(sessions)
    waiting: list[threading.Thread | None] = [None] * len(sessions)
    try:
        for session, zone in zip(sessions, _ZONES, strict=True):
            with session.cursor() as cursor:
                cursor.execute(f"SET time_zone = '{zone}', autocommit = 1")
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        tag = 0
        for _ in range(steps):
            at = rng.randrange(len(sessions))
            busy = waiting[at]
            if busy is not None:
                if busy.is_alive() and rng.random() < 0.7:
                    time.sleep(0.05)
                    continue
                busy.join()
                waiting[at] = None
            tag += 1
            number = rng.randrange(4) * len(sessions) + at
            own = ", ".join(str(one * len(sessions) + at) for one in range(4))
            change = rng.choice(
                (
                    f"INSERT INTO {table} VALUES ({number}, 1, {tag}) ON DUPLICATE KEY UPDATE tag = {tag}",
                    f"UPDATE {table} SET a = a + 1, tag = {tag} WHERE id IN ({own})",
                    f"DELETE FROM {table} WHERE id = {number}",
                )
            )
            with sessions[at].cursor() as cursor:
                choice = rng.random()
                if open_since[at] and choice < 0.5:
                    cursor.execute("COMMIT" if choice < 0.45 else "ROLLBACK")
                    open_since[at] = 0
                elif not open_since[at] and choice < 0.3:
                    cursor.execute("BEGIN")
                    cursor.execute(change)
                    open_since[at] = tag
                elif choice < 0.55:
                    pause = f"SLEEP({rng.uniform(0.4, 1.4):.2f})"
                    slow = f"UPDATE {table} SET a = a + 1 + {pause}, tag = {tag} WHERE id = {at}"
                    waiting[at] = threading.Thread(target=_run, args=(sessions[at], slow))
                    waiting[at].start()
                else:
                    cursor.execute(change)
            if rng.random() < 0.3:
                time.sleep(rng.uniform(0, 0.4))
            if rng.random() < 0.06:
                server.rotate()
        for busy in waiting:
            if busy is not None:
                busy.join()
        for session in sessions:
            session.commit()
    finally:
        for session in sessions:
            session.close()


def _run(session: object, statement: str) -> None:
    with session.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(statement)


def command(*arguments: object) -> tuple[int, str, str]:
    """Run the command in this process; gives status, standard output and standard error."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(out), redirect_stderr(err):
        status = main([str(one) for one in arguments])
    texts = []
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
        texts.append(stream.read())
    return status, texts[0], texts[1]


def typed(micros: int, rng: random.Random) -> str:
    """Write a time in one of the forms that users have."""
    moment = _EPOCH + timedelta(microseconds=micros)
    zone = rng.choice(
        (UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=3)), None)
    )
    if zone is None:
        return moment.replace(tzinfo=None).isoformat(sep=rng.choice("T "))
    return moment.astimezone(zone).isoformat()


@contextmanager
def client_zone(name: str) -> Iterator[None]:
    """Run in a time zone."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def prove_times(server: LocalServer, directory: Path, seed: int, questions: int) -> Counter[str]:
    """Make a history, and ask about it by times copied out of answers.

    Args:
        server: of the history.
        directory: for indexes and lakes.
        seed: of the history and the questions.
        questions: how many.
    """
    rng = random.Random(seed)
    counts: Counter[str] = Counter(histories=1)
    server.rotate()
    first = server.binlog_position()[0]
    database = server.create_database("times")
    table = f"{database}.t"
    with closing(server.connect()) as session, session.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, tag INT) ENGINE=InnoDB")
        cursor.execute(f"INSERT INTO {table} VALUES (0, 1, 0), (1, 1, 0), (2, 1, 0)")
        session.commit()
    make_history(server, rng, table, 120)
    server.rotate()
    names = server.binlog_files()
    files = [server.binlog_path(name) for name in names[names.index(first) : -1]]
    model = told_by_server(server.name, files, table)
    lake = directory / f"lake {seed}"
    history = History(
        *(server, table, files, directory, lake, model),
        logs_micros=server.flavor == "mysql" and server.version >= (8,),
    )
    _make_lake(history, first)
    status, out, err = command("find", *history.archive, "--table", table, "--json")
    assert status == 0, err
    times = sorted({json.loads(line)["commit_time"] for line in out.splitlines()})
    counts["transactions"], counts["files"] = len(model), len(files)
    stamps = [_micros(one) for one in times]
    if stamps != sorted({one.micros for one in model}):
        counts["differences"] += 1
        print(f"seed {seed}, {server.name}: other commit times than mysqlbinlog tells")
    for number in range(questions):
        begin, end = sorted((rng.choice(stamps), rng.choice(stamps)))
        if end - begin > 4:
            begin, end = begin + rng.choice((0, 0, 1, -1)), end + rng.choice((0, 0, 1, -1))
        if rng.random() < 0.2:
            end = begin
        kind = list(_KINDS)[number % len(_KINDS)]
        with client_zone(rng.choice(_CLIENT_ZONES)):
            question = Question(history, begin, end, rng)
            difference = _KINDS[kind](question)
        counts["questions"] += 1
        counts[f"asked {kind}"] += 1
        if difference:
            counts["differences"] += 1
            asked = f"{kind} {question.since} {question.until}"
            print(f"seed {seed}, {server.name}, question {number}: {asked}: {difference[:500]}")
    server.drop_database(database)
    return counts


def _make_lake(history: History, first: str) -> None:
    log = typed_log(
        history.lake / "log",
        history.server.url(),
        tables=history.table,
        startingPosition=f"{first}:4",
    )
    lake_of(log, history.lake / "lake")


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


class Question:
    """A question about the time from ``begin`` to ``end``; equal, they are one moment.

    Args:
        history: the history.
        begin: microseconds since 1970.
        end: microseconds since 1970.
        rng: chooses how it is asked.

    Attributes:
        since: the begin as it is typed.
        until: the end as it is typed.
    """

    def __init__(self, history: History, begin: int, end: int, rng: random.Random) -> None:
        self.history, self.rng, self.begin, self.end = history, rng, begin, end
        self.since = typed(begin, rng)
        self.until = typed(end, rng)

    def at(self, text: str) -> Question:
        """Return the question about the moment of a text."""
        other = Question(self.history, _micros(text), _micros(text), self.rng)
        other.since = other.until = text
        return other

    @property
    def options(self) -> tuple[str, ...]:
        return ("--since", self.since, "--until", self.until)

    @property
    def inside(self) -> list[Told]:
        """The transactions committed in the time."""
        end = self.end + (self.begin == self.end)
        return [one for one in self.history.model if self.begin <= one.micros < end]

    @property
    def range(self) -> list[Change]:
        """The changes from the first transaction committed then or later to the first at the end."""
        return self._between(self.begin)

    @property
    def live_range(self) -> list[Change]:
        """The same of a stream, which begins with a whole second where the source logs seconds."""
        whole = self.begin - self.begin % 1_000_000
        return self._between(self.begin if self.history.logs_micros else whole)

    def _between(self, begin: int) -> list[Change]:
        end = self.end + (self.begin == self.end)
        model = self.history.model[self.first(begin) : self.first(end)]
        return [change for one in model for change in one.changes]

    def first(self, micros: int) -> int:
        """The number of the first transaction committed then or later."""
        model = self.history.model
        return next((at for at, one in enumerate(model) if one.micros >= micros), len(model))

    def rows_before_end(self) -> list[Cells] | None:
        """The rows before the first transaction at the end; None where there is none."""
        at = self.first(self.end)
        if at == len(self.history.model):
            return None
        state: dict[int | None, Cells] = {}
        for one in self.history.model[:at]:
            for _, before, after in one.changes:
                if before is not None:
                    state.pop(before[0])
                if after is not None:
                    state[after[0]] = after
        return sorted(state.values())


def _find(asked: Question) -> str:
    history = asked.history
    _, out, err = command(
        *("find", *history.archive, "--table", history.table),
        *(*asked.options, "--json", "--allow-empty"),
    )
    rows = [json.loads(line) for line in out.splitlines()]
    found = [(one["kind"], _cells(one["before"]), _cells(one["after"])) for one in rows]
    return _differ(found, [one for each in asked.inside for one in each.changes], err)


def _count(asked: Question) -> str:
    return _counted(asked, asked.options, sum(len(one.changes) for one in asked.inside))


def _counted(asked: Question, options: Sequence[str], wanted: int) -> str:
    history = asked.history
    _, out, err = command(
        *("find", *history.archive, "--table", history.table),
        *(*options, "--count", "--allow-empty"),
    )
    return _differ(out.strip(), str(wanted), err)


def _script(kind: str, asked: Question) -> str:
    history = asked.history
    _, out, err = command(
        kind, *history.archive, "--table", history.table, *asked.options, "--allow-empty"
    )
    titles = re.findall(r"^-- transaction (\S+) at", out, re.MULTILINE)
    order = [one.gtid for one in asked.inside]
    return _differ(titles, order if kind == "redo" else order[::-1], err)


def _as_of(asked: Question) -> str:
    history, wanted = asked.history, asked.rows_before_end()
    if wanted is None:
        return ""
    _, out, err = command(
        "as-of", *history.archive, "--table", history.table, "--at", asked.until, "--json"
    )
    rows = sorted(tuple(json.loads(line).values()) for line in out.splitlines())
    return _differ(rows, wanted, err)


def _lake_as_of(asked: Question) -> str:
    history, wanted = asked.history, asked.rows_before_end()
    past = LakePast(history.lake / "lake", history.lake / "log")
    try:
        moment = past.moment(asked.until)
    except ConfigError as error:
        outside = wanted is None or not asked.first(asked.end)
        return "" if outside else f"refused: {error}"
    database, _, name = history.table.partition(".")
    rows = past.read((database, name), moment).select(["id", "a", "tag"]).to_pylist()
    return _differ(sorted(tuple(one.values()) for one in rows), wanted, "")


def _sql(asked: Question) -> str:
    query = f"SELECT _change_type, id, a, tag FROM {asked.history.table}"
    _, out, err = command("sql", query, *asked.history.files, *asked.options, "--json")
    rows = Counter(tuple(json.loads(line).values()) for line in out.splitlines())
    if not asked.range and "does not exist" in err:
        return ""
    return _differ(rows, _images(asked.range), err)


def _scan(asked: Question) -> str:
    history = asked.history
    is_live = asked.rng.random() < 0.3
    found = rc.scan_binlog(
        history.server.url() if is_live else history.files,
        tables=[history.table],
        since=asked.since,
        until=asked.until,
    )
    wanted = _images(asked.live_range if is_live else asked.range)
    if history.table not in found:
        return _differ(Counter(), wanted, "")
    stream = pa.RecordBatchReader.from_stream(found[history.table])
    rows = stream.read_all().select(["_change_type", "id", "a", "tag"]).to_pylist()
    return _differ(Counter(tuple(one.values()) for one in rows), wanted, "")


def _images(changes: Sequence[Change]) -> Counter[Any]:
    names = {"insert": ("insert",), "delete": ("delete",)}
    return Counter(
        (name, *cells)
        for verb, before, after in changes
        for name, cells in zip(
            names.get(verb, ("update_preimage", "update_postimage")),
            [one for one in (before, after) if one is not None],
            strict=True,
        )
    )


def _history(asked: Question) -> str:
    history = asked.history
    changes = [change for one in history.model for change in one.changes]
    key = asked.rng.choice([after[0] for _, _, after in changes if after])
    _, out, err = command(
        "history", *history.archive, "--table", history.table, "--key", key, "--json"
    )
    found = [_micros(json.loads(line)["commit_time"]) for line in out.splitlines()]
    life = [
        one.micros
        for one in history.model
        for _, before, after in one.changes
        if key in {row[0] for row in (before, after) if row}
    ]
    return _differ(found, life, err)


def _changes(asked: Question) -> str:
    reader = rc.open_binlog(
        asked.history.files, tables=[asked.history.table], start=asked.since, stop=asked.until
    )
    cells = [
        (one.kind, one.before and tuple(one.before), one.after and tuple(one.after))
        for one in reader.changes()
    ]
    return _differ(cells, asked.range, "")


def _printed_changes(asked: Question) -> str:
    _, out, err = command(
        *("changes", *asked.history.files, "--tables", asked.history.table),
        *("--start", asked.since, "--json"),
    )
    rows = [json.loads(line) for line in out.splitlines()]
    found = [(one["kind"], _cells(one["before"]), _cells(one["after"])) for one in rows]
    model = asked.history.model[asked.first(asked.begin) :]
    return _differ(found, [one for each in model for one in each.changes], err)


def _live(asked: Question) -> str:
    history = asked.history

    async def read() -> list[Any]:
        async with rc.connect(
            history.server.url(), tables=[history.table], start=asked.since, stop_at_end=True
        ) as stream:
            return [
                (one.kind, one.before and tuple(one.before), one.after and tuple(one.after))
                async for one in stream.changes()
            ]

    to_the_end = Question(history, asked.begin, _LAST, asked.rng)
    return _differ(asyncio.run(read()), to_the_end.live_range, "")


def _stats(asked: Question) -> str:
    history = asked.history
    _, out, err = command("stats", *history.archive, "--json")
    found = json.loads(out)
    model = {one.micros for one in history.model}
    if not found["first_time"] <= min(model) <= max(model) <= found["last_time"]:
        return f"from {found['first_time']} to {found['last_time']}; {err}"
    ours = [one for one in found["longest"] + found["largest"] if one["rows"]]
    wrong = [one for one in ours if one["time"] not in model]
    if wrong:
        return f"no transaction of {wrong}"
    # A number of this output is a time, too.
    one = str(asked.rng.choice(ours)["time"])
    wanted = sum(len(each.changes) for each in history.model if each.micros == int(one))
    return _counted(asked, ("--since", one, "--until", one), wanted)


def _copied(asked: Question) -> str:
    """A time as the text in which an output has it selects its transactions, and only those."""
    history, table = asked.history, asked.history.table
    archive, files = history.archive, asked.history.files
    changed = ("changes", *files, "--tables", table)
    asks = ("sql", f"SELECT * FROM {table}", *files)
    key = asked.rng.choice([one[0] for one in _rows(history)])
    life = ("history", *archive, "--table", table, "--key", key)
    outputs: tuple[tuple[object, ...], ...] = (
        *(("find", *archive, "--table", table), ("find", *archive, "--table", table, "--json")),
        *(life, (*life, "--json"), changed, (*changed, "--csv")),
        *(asks, (*asks, "--json"), (*asks, "--csv"), ("stats", *archive)),
    )
    chosen = asked.rng.choice(outputs)
    _, out, err = command(*chosen)
    text = asked.rng.choice(_SHOWN_TIME.findall(out) or [""])
    if not text:
        return f"{chosen[0]} {chosen[-1]} prints no time: {err}"
    told = [one for one in history.model if one.micros == _micros(text)]
    if not told and chosen[0] != "stats":
        return f"{chosen[0]} {chosen[-1]} prints {text}: no transaction is of then"
    wanted = [one for each in told for one in each.changes]
    options = ("--since", text, "--until", text)
    found = _counted(asked, options, len(wanted)) or _script("undo", asked.at(text))
    return found and f"{chosen[0]} {chosen[-1]} prints {text}: {found}"


def _rows(history: History) -> list[Cells]:
    return [after for one in history.model for _, _, after in one.changes if after]


_KINDS: dict[str, Callable[[Question], str]] = {
    "find": _find,
    "count": _count,
    "undo": partial(_script, "undo"),
    "redo": partial(_script, "redo"),
    "as-of": _as_of,
    "sql": _sql,
    "history": _history,
    "open_binlog": _changes,
    "changes": _printed_changes,
    "scan_binlog": _scan,
    "live": _live,
    "lake": _lake_as_of,
    "stats": _stats,
    "copied": _copied,
}


def _cells(row: dict[str, int | None] | None) -> Cells | None:
    return None if row is None else tuple(row.values())


def _differ(found: object, wanted: object, err: str) -> str:
    return "" if found == wanted else f"{found} instead of {wanted}; {err.strip()[-200:]}"
