"""Random tables: 1 to 300 columns, keys or none, generated and invisible columns, two engines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.integration.values_charsets import column_name, letters
from tests.integration.values_kinds import Draws, Kind, Maker, quoted_name
from tests.integration.values_scalars import integer

ID = Kind("", "INT", str, "CAST({} AS CHAR)", str, unsigned=False)
_HIDDEN_KEY = Kind("", "BIGINT UNSIGNED", str, "CAST({} AS CHAR)", str, unsigned=True)


@dataclass(frozen=True)
class Features:
    """What a server's tables can have."""

    generated: bool
    invisible: bool
    functional_keys: bool
    generated_keys: bool

    @classmethod
    def of(cls, flavor: str, version: Sequence[int]) -> "Features":
        mysql, version = flavor == "mysql", tuple(version)
        return cls(
            generated=not mysql or version >= (5, 7),
            invisible=not mysql or version >= (8, 0, 23),
            functional_keys=mysql and version >= (8, 0, 13),
            generated_keys=mysql and version >= (8, 0, 30),
        )


@dataclass
class Column:
    """A column of a table."""

    name: str
    kind: Kind
    generated: str = ""
    not_null: bool = False
    invisible: bool = False

    @property
    def sql_name(self) -> str:
        return quoted_name(self.name)

    def definition(self) -> str:
        sql = self.kind.sql
        if self.generated:
            sql = sql.removesuffix(" NULL") + " " + self.generated
        elif self.not_null:
            sql = sql.removesuffix(" NULL") + " NOT NULL"
        return f"{self.sql_name} {sql}{' INVISIBLE' if self.invisible else ''}"


@dataclass
class Table:
    """A table, and what is known of its rows: the text of each value.

    `cells` holds lists parallel to `columns`, by the value of the column `key_at`; see the
    comparison for what is in them.
    """

    name: str
    columns: list[Column]
    engine: str
    keyed: bool
    hidden_key: bool = False
    functional_key: bool = False
    has_trigger: bool = False
    cells: dict[int, list[Any]] = field(default_factory=dict)
    last_id: int = 0

    @property
    def sql_name(self) -> str:
        return quoted_name(self.name)

    @property
    def id_at(self) -> int:
        return next(at for at, column in enumerate(self.columns) if column.kind is ID)

    @property
    def key_at(self) -> int:
        """The column by whose value rows are known: the key that the server made, or the id."""
        hidden = (at for at, column in enumerate(self.columns) if column.kind is _HIDDEN_KEY)
        return next(hidden, self.id_at)

    @property
    def ids(self) -> list[int]:
        """The ids of all rows."""
        at = self.id_at
        return sorted(int(cells[at].text) for cells in self.cells.values())

    @property
    def writable(self) -> list[Column]:
        """The columns that a statement can set, without the id."""
        return [
            column
            for column in self.columns
            if not column.generated and column.kind not in (ID, _HIDDEN_KEY)
        ]

    def create(self) -> str:
        parts = [column.definition() for column in self.columns if column.kind is not _HIDDEN_KEY]
        if self.keyed:
            parts.append("PRIMARY KEY (id)")
        if self.functional_key:
            parts.append("KEY ((id + 1))")
        form = " ROW_FORMAT=DYNAMIC" if self.engine == "InnoDB" else ""
        return f"CREATE TABLE {self.sql_name} ({', '.join(parts)}) ENGINE={self.engine}{form}"

    def narrower(self) -> "Table":
        """The same with half of the columns: a row has its limits."""
        kept = self.columns[: max(1, len(self.columns) // 2)]
        kept = [column for column in kept if not column.generated]
        if not any(column.kind is ID for column in kept):
            kept.append(next(column for column in self.columns if column.kind is ID))
        return Table(self.name, kept, self.engine, self.keyed, self.hidden_key, self.functional_key)


def choose_makers(
    draws: Draws, makers: Mapping[str, Maker], rows: Callable[[str], float], count: int
) -> list[Maker]:
    """Types by lot, those with few rows so far more often."""
    rng = draws.rng
    order = sorted(makers, key=lambda name: (rows(name), rng.random()))
    scarce = order[: max(4, len(order) // 4)]
    return [makers[rng.choice(scarce if rng.random() < 0.75 else order)] for _ in range(count)]


def _column_count(draws: Draws, most: int) -> int:
    kind = draws.rng.random()
    if kind < 0.05:
        return 0
    if kind < 0.12:
        return min(most, draws.rng.randint(60, 299))
    return draws.rng.randint(1, 24)


def random_table(
    draws: Draws,
    makers: Mapping[str, Maker],
    features: Features,
    name: str,
    rows: Callable[[str], float],
    most_columns: int,
) -> Table:
    """A table; whether the server takes it is for the server to say."""
    rng = draws.rng
    count = _column_count(draws, most_columns)
    kinds = [make(draws) for make in choose_makers(draws, makers, rows, count)]
    columns = [
        Column(column_name(rng, at), kind, not_null=kind.not_null or rng.random() < 0.15)
        for at, kind in enumerate(kinds)
    ]
    engine = "MyISAM" if rng.random() < 0.15 else "InnoDB"
    if engine == "InnoDB" and features.generated and rng.random() < 0.5:
        columns += _generated(draws, columns)
        rng.shuffle(columns)
    if features.invisible:
        for column in columns:
            column.invisible = not column.not_null and rng.random() < 0.12
    columns.insert(rng.choice((0, 0, 0, len(columns), rng.randint(0, len(columns)))),
                   Column("id", ID, not_null=True))  # fmt: skip
    keyed = rng.random() < 0.8
    table = Table(name, columns, engine, keyed)
    table.functional_key = features.functional_keys and engine == "InnoDB" and rng.random() < 0.2
    if not keyed and features.generated_keys and engine == "InnoDB" and rng.random() < 0.5:
        columns.insert(0, Column("my_row_id", _HIDDEN_KEY, not_null=True, invisible=True))
        table.hidden_key = True
    return table


def _generated(draws: Draws, columns: Sequence[Column]) -> list[Column]:
    rng = draws.rng
    sources = [column for column in columns if column.kind.can_copy]
    found = []
    for at in range(rng.randint(1, 3)):
        how = rng.choice(("VIRTUAL", "STORED"))
        if sources and rng.random() < 0.6:
            source = rng.choice(sources)
            kind, expression = source.kind, source.sql_name
        elif rng.random() < 0.5:
            kind, expression = integer("BIGINT", 64, "")(draws), "id * 3000000000"
        else:
            word = rng.choice(letters(rng, "utf8mb3"))
            kind, expression = _generated_text(), f"CONCAT('{word}', id)"
        generated = f"GENERATED ALWAYS AS ({expression}) {how}"
        found.append(Column(f"g{at}{rng.choice(letters(rng, 'utf8mb3'))}", kind, generated))
    return found


def _generated_text() -> Kind:
    return Kind(
        "VARCHAR", "VARCHAR(99) CHARACTER SET utf8mb4", str, "HEX(CONVERT({} USING utf8mb4))",
        lambda value: value.encode().hex().upper(), charset="utf8mb4",
    )  # fmt: skip
