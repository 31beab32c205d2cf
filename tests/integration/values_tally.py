"""Counts of what was compared: rows per column type, per character set and per setting."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """What was compared, and what differed.

    `by_type` counts changed rows: a row whose value of such a column (not NULL) was decoded and
    compared with the server's. A table with two such columns counts a row once. `first_fault`: the
    tables, the statements and the decoded rows of the first difference.
    """

    rows: int = 0
    values: int = 0
    tables: int = 0
    statements: int = 0
    columns: Counter[int] = field(default_factory=Counter)
    first_fault: str = ""
    differences: list[str] = field(default_factory=list)
    differences_by_type: Counter[str] = field(default_factory=Counter)
    by_type: Counter[str] = field(default_factory=Counter)
    by_charset: Counter[str] = field(default_factory=Counter)
    by_setting: Counter[str] = field(default_factory=Counter)
    by_event: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"{self.tables} tables of 1 to {max(self.columns, default=0)} columns, "
            f"{self.statements} statements, {self.rows} changed rows, {self.values} values, "
            f"{len(self.differences)} differences"
        )

    def differ(self, text: str, type_name: str = "") -> None:
        self.differences.append(text)
        self.differences_by_type[type_name or "rows and columns"] += 1

    def count(self, settings: Iterable[str], types: Iterable[str], charsets: Iterable[str]) -> None:
        """A changed row all of whose values were compared."""
        self.rows += 1
        self.by_setting.update(settings)
        self.by_type.update(types)
        self.by_charset.update(charsets)


def table_of(tallies: dict[str, Tally]) -> str:
    """Type by server: rows compared, differences."""
    lines = []
    servers = list(tallies)
    for title, which in (("type", "by_type"), ("character set", "by_charset"),
                         ("setting", "by_setting"), ("event", "by_event")):  # fmt: skip
        counts = {name: getattr(tally, which) for name, tally in tallies.items()}
        keys = sorted({key for one in counts.values() for key in one})
        lines.append(f"{title:32}" + "".join(f"{name:>18}" for name in servers))
        for key in keys:
            cells = []
            for name in servers:
                rows, bad = counts[name][key], tallies[name].differences_by_type[key]
                shown = f"{rows}" + (f" / {bad}" if which == "by_type" else "") if rows else "-"
                cells.append(f"{shown:>18}")
            lines.append(f"{key:32}{''.join(cells)}")
        lines.append("")
    return "\n".join(lines)
