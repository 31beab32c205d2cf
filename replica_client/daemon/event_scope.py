"""The tables, columns and transforms of a sink of events, compared with those of its last run.

What consumers have was made with the last scope. A sink with a snapshot copies the tables that
differ; without one, the difference is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import field
from typing import Any, Final, Self

from replica_client.codec.quick_dataclass import dataclass
from replica_client.daemon.configuration import RouteConfig
from replica_client.daemon.mirrors import TransformDigests, digest_of
from replica_client.daemon.source_access import patterns_of
from replica_client.errors import ConfigError
from replica_client.rows.selection import Selection
from replica_client.tables.table_copy import TableName

STATE_KEY: Final = "scope"
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class EventScope:
    """The scope of one sink.

    Attributes:
        route: its name, for messages.
        tables: patterns of wanted tables; None for all.
        exclude: patterns of unwanted ones.
        columns: the configured columns.
        selection: all of these.
        digests: of the transforms.
    """

    route: str
    tables: list[str] | None
    exclude: list[str]
    columns: Any
    selection: Selection
    digests: TransformDigests
    _known: dict[TableName, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: RouteConfig, selection: Selection, digests: TransformDigests) -> Self:
        """Return the scope of a configured sink."""
        source, sink = config.source, config.sink
        columns = source.columns if sink.columns is None else sink.columns
        return cls(config.name, *patterns_of(config), columns, selection, digests)

    def digest(self, name: TableName) -> str:
        """Return a digest of what decides how rows of a table look; empty if nothing does."""
        if not self.selection.chooses_columns and not self.digests.whole:
            return ""
        found = self._known.get(name)
        if found is None:
            columns = self.selection.columns_of(*name)
            looks = [None if columns is None else sorted(columns), self.digests.of([name])]
            found = self._known[name] = digest_of(looks) if looks != [None, ""] else ""
        return found

    def has_changed(self, state: Mapping[str, object]) -> bool:
        """Return whether a saved state has another scope; False if it has none."""
        return state.get(STATE_KEY) not in (None, self._value())

    def save(self, state: MutableMapping[str, object]) -> None:
        """Add the scope to the state that is saved with the position."""
        state[STATE_KEY] = self._value()

    def differences(self, saved: object, there: Iterable[TableName]) -> list[str]:
        """Return a message for each difference of a saved scope that consumers do not learn.

        Args:
            saved: of the last run.
            there: the source's tables.
        """
        if not isinstance(saved, Mapping):
            return []
        found = []
        again = f"replica-client snapshot CONFIG --sink {self.route} --table TABLE"
        before = _selection(saved)
        wanted = [name for name in sorted(there) if self.selection.wants(*name)]
        if new := [".".join(name) for name in wanted if not before.wants(*name)]:
            shown = ", ".join(new[:_SHOWN]) + (" …" if len(new) > _SHOWN else "")
            found.append(
                f"tables changed: the sink gets changes of {shown} from here on, and has no rows of before: "
                f"set snapshot = true, or {again}"
            )
        if (saved.get("columns"), saved.get("transforms")) != (self.columns, self.digests.whole):
            found.append(
                "columns or transforms changed: consumers have rows as they were written before: set "
                f"snapshot = true, or {again}"
            )
        return found

    def _value(self) -> dict[str, object]:
        return {
            "tables": self.tables,
            "exclude": self.exclude,
            "columns": self.columns,
            "transforms": self.digests.whole,
        }


def _selection(saved: Mapping[str, Any]) -> Selection:
    try:
        return Selection(saved.get("tables"), saved.get("exclude"))
    except (ConfigError, TypeError):
        return Selection()
