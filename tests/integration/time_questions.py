"""Questions by commit time to an archive of a real server, against what the server's own mysqlbinlog says of its files.

Several sessions in three time zones run transactions that take seconds and end in another order than they began, with
rotations between. The times of the questions are copied out of answers. The model is made of the text of the server's
own program, and shares no code with the reader.
"""

from __future__ import annotations

import io
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import replica_client as rc
from replica_client.cli.main import main
from tests.servers.local import SCRIPT, LocalServer

_ZONES = ("+00:00", "+05:30", "-03:00")
_HEAD = re.compile(r"#(\d{6})\s+(\d+):(\d\d):(\d\d) server id \d+\s+end_log_pos \d+.*?\t(.*)")
_COMMITTED = re.compile(r"immediate_commit_timestamp=(\d+)")
_MARIADB_GTID = re.compile(r"GTID (\d+-\d+-\d+)")
_MYSQL_GTID = re.compile(r"SET @@SESSION.GTID_NEXT= '([^']+)'")
_CELL = re.compile(r"###\s+@(\d+)=(-?\d+|NULL)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Cells = tuple[int | None, ...]


@dataclass
class Told:
    """A transaction as the server's own program tells it."""

    gtid: str
    micros: int = 0
    changes: list[tuple[str, Cells | None, Cells | None]] = field(default_factory=list)


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


def prove_times(server: LocalServer, directory: Path, seed: int, questions: int) -> Counter[str]:
    """Make a history, and ask about it by times copied out of answers.

    Args:
        server: of the history.
        directory: for indexes.
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
    base = [*files, "--index-directory", directory]
    schema = Path(directory) / "schema.json"
    if server.name == "mysql-5.6":
        command("schema", "rebuild", *files, "--output", schema)
    status, out, err = command("find", *base, "--table", table, "--json")
    assert status == 0, err
    seen = [json.loads(line) for line in out.splitlines()]
    times = sorted({one["commit_time"] for one in seen})
    counts["transactions"], counts["files"] = len(model), len(files)
    stamps = [_micros(one) for one in times]
    if stamps != sorted({one.micros for one in model}):
        counts["differences"] += 1
        print(f"seed {seed}, {server.name}: other commit times than mysqlbinlog tells")
    for number in range(questions):
        begin, end = sorted((rng.choice(stamps), rng.choice(stamps)))
        end += rng.choice((0, 0, 1, -1)) if end - begin > 1 else 0
        if rng.random() < 0.2:
            end = begin
        kind = _KINDS[number % len(_KINDS)]
        asked = f"{kind} {typed(begin, rng)} {typed(end, rng)}"
        difference = _ask(kind, base, table, model, (begin, end), rng)
        counts["questions"] += 1
        if difference:
            counts["differences"] += 1
            print(f"seed {seed}, {server.name}, question {number}: {asked}: {difference[:500]}")
    server.drop_database(database)
    return counts


_KINDS = ("find", "count", "undo", "redo", "as-of", "sql", "history", "changes")


def _micros(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def _ask(
    kind: str,
    base: Sequence[object],
    table: str,
    model: Sequence[Told],
    when: tuple[int, int],
    rng: random.Random,
) -> str:
    """Ask one question; gives how the answer differs from the model's, ``""`` for not at all."""
    begin, end = when
    upto = end + (begin == end)
    inside = [one for one in model if begin <= one.micros < upto]
    given = ("--since", typed(begin, rng), "--until", typed(end, rng))
    files = [one for one in base if isinstance(one, Path)][:-1]
    start = next(at for at, one in enumerate(model) if one.micros >= begin)
    stop = next((at for at, one in enumerate(model) if one.micros >= upto), len(model))
    changes = [change for one in model[start:stop] for change in one.changes]
    if kind in ("find", "count"):
        how = "--json" if kind == "find" else "--count"
        _, out, err = command("find", *base, "--table", table, *given, how, "--allow-empty")
        wanted = [one for each in inside for one in each.changes]
        if kind == "count":
            return _differ(out.strip(), str(len(wanted)), err)
        rows = [json.loads(line) for line in out.splitlines()]
        found = [(one["kind"], _cells(one["before"]), _cells(one["after"])) for one in rows]
        return _differ(found, wanted, err)
    if kind in ("undo", "redo"):
        _, out, err = command(kind, *base, "--table", table, *given, "--allow-empty")
        titles = re.findall(r"^-- transaction (\S+) at", out, re.MULTILINE)
        order = [one.gtid for one in inside]
        return _differ(titles, order if kind == "redo" else order[::-1], err)
    if kind == "as-of":
        at = next((n for n, one in enumerate(model) if one.micros >= end), None)
        if at is None:
            return ""
        _, out, err = command("as-of", *base, "--table", table, "--at", given[3], "--json")
        state: dict[int | None, Cells] = {}
        for one in model[:at]:
            for _, before, after in one.changes:
                if before is not None:
                    state.pop(before[0])
                if after is not None:
                    state[after[0]] = after
        rows = sorted(tuple(json.loads(line).values()) for line in out.splitlines())
        return _differ(rows, sorted(state.values()), err)
    if kind == "sql":
        query = f"SELECT _change_type, id, a, tag FROM {table}"
        _, out, err = command("sql", query, *files, *given, "--json")
        rows = Counter(tuple(json.loads(line).values()) for line in out.splitlines())
        names = {"insert": ("insert",), "delete": ("delete",)}
        wanted_rows = Counter(
            (name, *cells)
            for verb, before, after in changes
            for name, cells in zip(
                names.get(verb, ("update_preimage", "update_postimage")),
                [one for one in (before, after) if one is not None],
                strict=True,
            )
        )
        if not changes and "does not exist" in err:
            return ""
        return _differ(rows, wanted_rows, err)
    if kind == "history":
        key = rng.choice([after[0] for one in model for _, _, after in one.changes if after])
        _, out, err = command("history", *base, "--table", table, "--key", key, "--json")
        found_times = [_micros(json.loads(line)["commit_time"]) for line in out.splitlines()]
        life = [
            one.micros
            for one in model
            for _, before, after in one.changes
            if key in {row[0] for row in (before, after) if row}
        ]
        return _differ(found_times, life, err)
    reader = rc.open_binlog(files, tables=[table], start=given[1], stop=given[3])
    cells = [
        (one.kind, one.before and tuple(one.before), one.after and tuple(one.after))
        for one in reader.changes()
    ]
    return _differ(cells, changes, "")


def _cells(row: dict[str, int | None] | None) -> Cells | None:
    return None if row is None else tuple(row.values())


def _differ(found: object, wanted: object, err: str) -> str:
    return "" if found == wanted else f"{found} instead of {wanted}; {err.strip()[-200:]}"
