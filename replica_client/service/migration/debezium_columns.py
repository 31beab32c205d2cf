"""Columns and fields that Debezium hides: converted, dropped, or a reason to read nothing."""

from __future__ import annotations

import re
from typing import Any, Final

from replica_client.service.migration.migrated import Keys, Migrated, list_of, names_of

TRANSFORMS: Final = "write it as [[source.transform]], or do it in the consumer"
_HASH: Final = re.compile(r"column\.mask\.hash(\.v2)?\.[^.]+\.with\.salt\..*", re.DOTALL)
_PART: Final = re.compile(r"column\.(?:mask\.with|truncate\.to)\.[0-9]+\.chars")


def take_columns(made: Migrated, keys: Keys) -> None:
    """Convert excluded, masked and truncated columns to a transform for each table.

    A hash of Debezium has no counterpart with the same values: its columns are dropped.
    """
    found: dict[str, dict[str, Any]] = {}
    included: dict[str, list[str]] = {}
    for key in list(keys.left()):
        mask = re.fullmatch(r"column\.mask\.with\.([0-9]{1,4})\.chars", key)
        cut = re.fullmatch(r"column\.truncate\.to\.([0-9]{1,4})\.chars", key)
        is_included = key == "column.include.list"
        hashed = _HASH.fullmatch(key) or (key.startswith("column.mask") and not mask)
        if not (key == "column.exclude.list" or is_included or mask or cut or hashed):
            if _PART.fullmatch(key):
                keys.give_up(key, "a number of characters up to 9999")
                made.unprotected.append(key)
            continue
        for expression in list_of(keys.take(key)):
            names_found = names_of(expression, 3)
            if names_found is None:
                # The key of a hash has its salt.
                shown = "column.mask.hash" if hashed else key
                keys.give_up(
                    shown, "a regular expression in it has no pattern: [[source.transform]]"
                )
                made.unprotected.append(shown)
            for names in names_found or ():
                table = ".".join(names[:2])
                if is_included:
                    included.setdefault(table, []).append(names[2])
                    continue
                rules = found.setdefault(table, {})
                if mask:
                    rules.setdefault("mask", {})[names[2]] = "*" * int(mask[1])
                elif cut:
                    rules.setdefault("truncate", {})[names[2]] = int(cut[1])
                else:
                    rules.setdefault("drop", []).append(names[2])
        if hashed:
            made.remarks.append(
                "Columns that Debezium hashes are dropped: hash of a [[source.transform]] gives other values."
            )
    for table, columns in included.items():
        found.setdefault(table, {})["keep"] = columns
    for table, rules in found.items():
        made.transforms.append({"tables": [table], "keep": ["*"], **rules})
    if any("keep" not in rules for rules in found.values()):
        made.remarks.append(
            'Transforms let through what they do not name (keep = ["*"]), as Debezium does.'
        )
    if included:
        made.remarks.append(
            "Debezium leaves out tables that column.include.list does not name; here they are whole."
        )


_HARMLESS: Final = frozenset(
    (
        *(
            "ExtractNewRecordState",
            "ByLogicalTableRouter",
            "RegexRouter",
            "TimestampRouter",
            "HeaderToValue",
        ),
        *(
            "ExtractChangedRecordState",
            "PartitionRouting",
            "TimezoneConverter",
            "InsertHeader",
            "InsertField",
        ),
        *(
            "TimestampConverter",
            "Cast",
            "HoistField",
            "SetSchemaMetadata",
            "ValueToKey",
            "ExtractField",
            "Flatten",
        ),
        *("SchemaChangeEventFilter", "DropHeaders", "HeaderFrom", "VectorToJsonConverter"),
    )
)
"""Transforms that hide no value: they rename, route, convert or add."""


def take_transform(made: Migrated, keys: Keys, start: str, kind: str) -> None:
    """Drop the fields that a transform hides; read nothing if it may hide others."""
    name = kind.rpartition(".")[2].removesuffix("$Value").removesuffix("$Key")
    fields = list_of(keys.take(start + "fields", start + "exclude", start + "blacklist"))
    has_predicate = bool(keys.take(start + "predicate"))
    if name in ("MaskField", "ReplaceField") and fields and not has_predicate:
        # Fields of a row are columns once another transform took the row out of its envelope.
        columns = [one.rpartition(".")[2] for one in fields]
        made.drop(dict.fromkeys(made.source.get("tables", ["*.*"]), columns))
        made.remarks.append(f"{name}: its fields are dropped.")
        return
    keys.give_up(start + "type", TRANSFORMS)
    renames = name == "ReplaceField" and not (
        start + "include" in keys or start + "whitelist" in keys
    )
    if name not in _HARMLESS and not renames:
        made.unprotected.append(start + "type")
