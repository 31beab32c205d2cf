"""Random histories, read in many ways, against the text of the server's own SELECT at each moment.

Used by scripts/proofs/truth (hours) and by test_truth.py (seconds).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replica_client import ABSENT, Position
from replica_client.archive.archive import open_archive
from tests.integration.truth_kinds import UNKNOWN, delivered
from tests.integration.truth_tables import Moment, State
from tests.integration.truth_ways import (
    ORDERED,
    Changed,
    Latest,
    Written,
    copied_files,
    lake,
    mirrored,
)
from tests.integration.truth_world import MARKER, World
from tests.servers.local import LocalServer

_MOST = 3
_ONE_ZERO = ("sqlite mirror", "duckdb mirror")
_NEGATIVE_ZERO = {"00000080": "00000000", "0000000000000080": "0000000000000000"}


@dataclass
class Truth:
    """What a proof saw.

    Attributes:
        values: compared, by way.
        unknown: values that an image left out.
        wrong: values, rows or moments that differ.
        silent: of these, rows and moments that are missing without an error.
        refused: errors of ways that name what cannot be known, by way.
        stops: other errors.
    """

    rounds: int = 0
    moments: int = 0
    values: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    silent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    stops: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    statements: Counter[int] = field(default_factory=Counter)
    shown: set[tuple[int, int]] = field(default_factory=set)

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, {self.moments} moments, {len(self.values)} ways, "
            f"{self.values.total():,} values compared, {self.unknown.total():,} left out, "
            f"{len(self.wrong)} wrong, {self.silent} silent, "
            f"{self.refused.total()} refused by name, {len(self.stops)} stops"
        )


class Replay:
    """Applies changes, and compares with SELECT at each marker."""

    def __init__(
        self, way: str, moments: list[Moment], truth: Truth, maria: bool, seed: int
    ) -> None:
        self._way, self._moments, self._truth = way, moments, truth
        self._maria, self._seed = maria, seed
        self._tables: dict[str, State] = {}
        self._at: int | None = 0
        self._differences = 0
        self._broken: set[str] = set()

    def start_inside(self) -> None:
        """Begin at the first marker of a moment that comes."""
        self._at = None

    def feed(self, changes: Iterable[Changed]) -> None:
        """Take all changes."""
        for change in changes:
            if change.table == MARKER:
                assert change.after is not None
                number = int(change.after["id"])
                if number >= 0:
                    self._moment(number)
            elif self._at is not None and self._at < len(self._moments):
                self._apply(change)

    def finish(self) -> None:
        """Look whether all moments came."""
        if self._at is None or self._at != len(self._moments):
            self._differ(f"ends at moment {self._at} of {len(self._moments)}", silent=True)

    def _differ(self, text: str, *, silent: bool = False) -> None:
        self._differences += 1
        self._truth.silent += silent
        if self._differences > _MOST:
            return
        at = self._at if self._at is not None and self._at < len(self._moments) else -1
        log = "\n      ".join(["", *(one[:400] for one in self._moments[at].log[-8:])])
        known = self._truth.shown
        shown = "" if (self._seed, at) in known else log
        known.add((self._seed, at))
        self._truth.wrong.append(
            f"seed {self._seed}, {self._way}, moment {at}: {text[:700]}{shown}"
        )

    def _apply(self, change: Changed) -> None:
        assert self._at is not None
        moment = self._moments[self._at]
        name = change.table
        if name in moment.altered or name not in moment.families or name in self._broken:
            return
        try:
            before = self._row(moment, name, change.before)
            after = self._row(moment, name, change.after)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self._differ(f"{name}: {type(error).__name__} {error}: {change}")
            self._broken.add(name)
            return
        rows = self._tables.setdefault(name, {})
        known: dict[str, Any] = {}
        if before is not None:
            found = rows.pop(self._key(moment, name, before, {}), None)
            if found is None:
                self._differ(f"{name}: no row is like {before}")
                return
            known = found
            self._compare(name, "before image", before, found)
        if after is None:
            return
        if self._maria:
            known = {**known, **dict.fromkeys(moment.computed[name], UNKNOWN)}
        # What the image leaves out stays; a value that is there and cannot be told (a label by its number,
        # differences of a document, bytes of an unproven set) is not the earlier one.
        given = change.after or {}
        row = {
            one: known.get(one, UNKNOWN) if given.get(one, ABSENT) is ABSENT else after[one]
            for one in moment.families[name]
        }
        key = self._key(moment, name, after, known)
        if key in rows and key:
            self._differ(f"{name}: row {key} is there twice")
        rows[key] = row

    def _key(
        self, moment: Moment, name: str, row: Mapping[str, Any], known: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        found = []
        for one in moment.keys[name]:
            value = row.get(one, UNKNOWN)
            found.append(known.get(one, UNKNOWN) if value is UNKNOWN else value)
        return tuple(found)

    def _row(
        self, moment: Moment, name: str, row: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        if row is None:
            return None
        families = moment.families[name]
        others = set(row) - set(families)
        if self._way == "scan_binlog":
            # A table has the columns of all its definitions; those of others are null.
            others = {one for one in others if row[one] is not None}
            row = {one: value for one, value in row.items() if one in families}
        if others:
            raise KeyError(f"columns {others} that the table does not have")
        made = {
            one: UNKNOWN
            if self._is_unproven(moment, name, families[one], value)
            else delivered(families[one], value)
            for one, value in row.items()
        }
        if moment.whole:
            computed = moment.computed[name] if self._maria else set()
            lacking = [
                one
                for one in families
                if made.get(one, UNKNOWN) is UNKNOWN
                and one not in computed
                and families[one] != "json"
                and not (name in moment.unproven and families[one] == "text")
                and not (
                    moment.loses_labels and families[one] == "label" and row[one] is not ABSENT
                )
            ]
            if lacking:
                raise ValueError(f"a whole image lacks {lacking}")
        return made

    def _is_unproven(self, moment: Moment, name: str, family: str, value: Any) -> bool:
        """Return whether a value is bytes because the binlog does not tell its character set.

        A live stream asks the source.
        """
        shown = isinstance(value, bytes) or (isinstance(value, dict) and "$binary" in value)
        from_files = not self._way.startswith("live")
        return shown and family == "text" and from_files and name in moment.unproven

    def _compare(
        self, name: str, what: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]
    ) -> None:
        for one, value in mine.items():
            expected = theirs.get(one, UNKNOWN)
            no_date = (
                value is None and self._way == "duckdb mirror" and str(expected).startswith("0000-")
            )
            if value is UNKNOWN or expected is UNKNOWN or no_date:
                self._truth.unknown[self._way] += 1
                continue
            self._truth.values[self._way] += 1
            if self._way in _ONE_ZERO and _NEGATIVE_ZERO.get(str(expected)) == value:
                continue
            if value != expected:
                self._differ(f"{name}.{one}, {what}: {value!r}, SELECT has {expected!r}")

    def _moment(self, number: int) -> None:
        moment = self._moments[number]
        if self._at is None:
            self._at = number
        elif number != self._at:
            self._differ(f"moment {number} comes", silent=True)
        else:
            for name, expected in moment.tables.items():
                if name not in moment.altered and name not in self._broken:
                    self._rows(name, self._tables.get(name, {}), expected)
        self._tables = {name: dict(rows) for name, rows in moment.tables.items()}
        self._at = number + 1
        self._broken.clear()
        if self._at < len(self._moments):
            for name in self._moments[self._at].made:
                self._tables[name] = {}

    def _rows(self, name: str, mine: State, theirs: State) -> None:
        if mine.keys() != theirs.keys():
            self._differ(f"{name}: too many {sorted(mine.keys() - theirs.keys(), key=repr)[:5]}, missing "
                         f"{sorted(theirs.keys() - mine.keys(), key=repr)[:5]}", silent=True)  # fmt: skip
        for key in mine.keys() & theirs.keys():
            if mine[key] is not theirs[key]:
                self._compare(name, f"row {key}", mine[key], theirs[key])


def prove(server: LocalServer, directory: Path, seed: int, steps: int, truth: Truth) -> None:
    """Write a history and read it in every way."""
    server.reset_binlog()
    maria = server.flavor == "mariadb"
    world = World(server, seed)
    try:
        follower: Latest | None = None
        begin = world.rng.randrange(steps)
        for number in range(steps):
            if number == begin:
                follower = Latest(server, world.database)
                follower.begin(world.signal)
            world.step()
        world._end_xa()
        world.moment()
        assert follower is not None
        written = Written(server, world.database, directory, [], random.Random(seed))
        replay = Replay("live, latest", world.moments, truth, maria, seed)
        replay.start_inside()
        late = follower
        _attempt(
            "live, latest",
            truth,
            seed,
            lambda: replay.feed(late.finish(world.signal)),
            replay.finish,
            may_refuse=_LABELS,
        )
        written.files = copied_files(server, directory / "files")
        for way, read in ORDERED.items():
            one = Replay(way, world.moments, truth, maria, seed)
            refuses = f"{_LABELS}|have no common type" if way == "scan_binlog" else _LABELS
            _attempt(way, truth, seed, _feeding(one, read, written), one.finish, may_refuse=refuses)
        _held(world, written, truth, maria)
        _as_of(world, written, truth, maria)
        _attempt(
            "lake",
            truth,
            seed,
            lambda: _lake(world, written, truth, maria),
            may_refuse="current tables need whole rows of MariaDB",
        )
    finally:
        truth.done += world.done
        truth.statements += world.refused
        truth.moments += len(world.moments)
        truth.rounds += 1
        world.close()


def _feeding(
    replay: Replay, read: Callable[[Written], Iterable[Changed]], written: Written
) -> Callable[[], None]:
    return lambda: replay.feed(read(written))


def _attempt(
    way: str, truth: Truth, seed: int, *works: Callable[[], None], may_refuse: str = ""
) -> None:
    try:
        for work in works:
            work()
    except Exception as error:  # pyarrow gives errors of a reader as its own
        text = " ".join(str(error).split())
        if may_refuse and any(one in text for one in may_refuse.split("|")):
            truth.refused[way] += 1
            return
        truth.stops.append(f"seed {seed}, {way}: {type(error).__name__}: {text[:900]}")


_LABELS = "is not known: listings of the source show"
_INCOMPLETE = (
    f"{_LABELS}|leaves out|lacks|left out|not know|TRUNCATE|ALTER|DROP|differ|was made|not in the archive|"
    "no CREATE|changed in parts|character set of|its rows after it"
)


def _same_rows(
    way: str,
    moment: Moment,
    name: str,
    rows: Iterable[Mapping[str, Any]],
    world: World,
    truth: Truth,
    maria: bool,
) -> None:
    """Compare the rows that a way holds with those of a moment."""
    replay = Replay(way, world.moments, truth, maria, world.seed)
    replay._at = moment.number
    families = moment.families[name]
    found: State = {}
    for row in rows:
        try:
            made = {
                one: UNKNOWN
                if replay._is_unproven(moment, name, families[one], value)
                else delivered(families[one], value)
                for one, value in row.items()
                if not one.startswith("_lossless")
            }
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            replay._differ(f"{name}: {type(error).__name__} {error}: {row}")
            return
        found[tuple(made[one] for one in moment.keys[name])] = made
    replay._rows(name, found, moment.tables[name])


def _held(world: World, written: Written, truth: Truth, maria: bool) -> None:
    """Compare mirrors."""
    last = world.moments[-1].number
    wanted = {*world.rng.sample(range(last), min(last, 4)), last}
    without = [f"{world.database}.{one}*" for one in ("q", "v", "g")]
    for kind in ("sqlite", "duckdb"):
        way = f"{kind} mirror"

        def work(kind: str = kind, way: str = way) -> None:
            for number, read in mirrored(written, kind, wanted, without):
                moment = world.moments[number]
                for name in moment.tables:
                    if name[0] == "t":
                        _same_rows(way, moment, name, read(name), world, truth, maria)

        _attempt(way, truth, world.seed, work, may_refuse=_INCOMPLETE)


def _lake(world: World, written: Written, truth: Truth, maria: bool) -> None:
    """Compare a lake's tables with the last moment; a table that it leaves out is refused by name."""
    found, left_out = lake(written)
    moment = world.moments[-1]
    for name in moment.tables:
        if name in left_out:
            truth.refused["lake"] += 1
        elif name[0] in "tg":
            _same_rows("lake", moment, name, found.get(name, []), world, truth, maria)


def _as_of(world: World, written: Written, truth: Truth, maria: bool) -> None:
    """Compare tables as they were at random moments."""
    archive = open_archive(written.files, index_directory=written.directory)
    names = [(moment, name) for moment in world.moments for name in moment.tables if name[0] == "t"]
    for moment, name in world.rng.sample(names, min(len(names), 6)):

        def work(moment: Moment = moment, name: str = name) -> None:
            table = archive.as_of(
                f"{world.database}.{name}", str(Position(*moment.position))
            ).read_all()
            rows = []
            for row in table.to_pylist():
                kept = dict(row.pop("_lossless", None) or ())
                rows.append(
                    {one: kept.get(one) if value is None else value for one, value in row.items()}
                )
            _same_rows("as of", moment, name, rows, world, truth, maria)

        _attempt("as of", truth, world.seed, work, may_refuse=_INCOMPLETE)
