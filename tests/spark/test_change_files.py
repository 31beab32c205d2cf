"""Typed change files: they say what the envelope says, and tables that are merged of them are the same."""

import datetime
import json
import random
import shutil
from collections import Counter

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.errors import SchemaMismatchError
from replica_client.lake import data_files, lake_catalog, rewrite, state_table
from replica_client.lake.change_log_files import change_log_row_count, change_log_rows
from replica_client.lake.data_files import open_delta
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.maintenance import local_runner
from replica_client.lake.rewrite import net_rows
from replica_client.lake.state_table import StateTable
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape
from tests.spark.binlogs import FILES
from tests.spark.change_logs import contents, envelope_log, lake_of, typed_log
from tests.unit.lake.written_files import written_file


@pytest.fixture
def binlogs(tmp_path):
    directory = tmp_path / "binlogs"
    directory.mkdir()
    for file in FILES:
        shutil.copy(file, directory)
    return directory


def test_the_view_and_the_tables_are_those_of_the_envelope(binlogs, tmp_path):
    typed = typed_log(tmp_path / "typed", binlogs)
    envelope = envelope_log(tmp_path / "envelope", binlogs)
    rows = change_log_rows(typed)
    assert rows == change_log_rows(envelope)
    assert len(rows) == change_log_row_count(typed) == 87
    found = contents(lake_of(typed, tmp_path / "a"))
    assert found == contents(lake_of(envelope, tmp_path / "b"))
    assert any(status == "current" and shown for status, _, shown in found.values())


class Killed(BaseException):
    pass


@pytest.mark.parametrize("seed", range(2))
def test_killed_anywhere_each_change_is_merged_once(binlogs, tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    log = typed_log(tmp_path / "log", binlogs)
    wanted = contents(lake_of(log, tmp_path / "whole"))

    def deadly(owner, name):
        function = getattr(owner, name)

        def call(*args, **kwargs):
            if rng.random() < 0.12:
                raise Killed
            found = function(*args, **kwargs)
            if rng.random() < 0.12:
                raise Killed
            return found

        monkeypatch.setattr(owner, name, call)

    deadly(LakeCatalog, "save")
    deadly(lake_catalog, "replace_file")
    deadly(StateTable, "_commit")
    deadly(StateTable, "plan_merges")
    deadly(StateTable, "create")
    deadly(rewrite, "run")
    kills = 0
    while True:
        try:
            engine = lake_of(log, tmp_path / "lake", local_runner(1))
            break
        except Killed:
            kills += 1
    assert kills
    assert contents(engine) == wanted


# One table, merged by ranges of its key.

MODEL = TableModel("d", "t", (ColumnModel("id", "int"), ColumnModel("v", "int")), (("id", 0),))
COLUMNS = (
    ColumnShape("id", ColumnType.MYSQL_TYPE_LONG, nullable=False, unsigned=False, primary_key_index=0),
    ColumnShape("v", ColumnType.MYSQL_TYPE_LONG, unsigned=False),
)  # fmt: skip


def change_file(log, changes, part):
    """Changes are (kind, id, v); written as a task writes them."""
    kinds, ids, values = zip(*changes, strict=True)
    return written_file(log, COLUMNS, kinds, {"id": ids, "v": values}, part)


@pytest.mark.parametrize("seed", range(2))
def test_ranges_of_keys_are_merged_each_by_itself(tmp_path, monkeypatch, seed):
    """Files are small, so that there are many ranges, whose ends fall anywhere."""
    rng = random.Random(seed)
    monkeypatch.setattr(rewrite, "SPLIT_SIZE", 1200)
    full = rng.choice((1, 1 << 20))
    monkeypatch.setattr(state_table, "FULL_DATA_FILE_SIZE", full)
    monkeypatch.setattr(data_files, "FULL_DATA_FILE_SIZE", full)
    table = StateTable(tmp_path / "t", LakeTable(MODEL), "p")
    table.create()
    (tmp_path / "log").mkdir()
    rows, files, concerned = {}, 0, []

    def runner(works):
        concerned.append(len(works))
        return local_runner(1)(works)

    for step in range(1, 9):
        changes = []
        low = rng.randrange(2000)
        for _ in range(rng.randrange(1, 120)):
            key = rng.randrange(low, low + rng.choice((30, 2000)))
            value = rng.randrange(1000)
            if key not in rows:
                changes.append(("insert", key, value))
                rows[key] = value
            elif rng.random() < 0.3:
                changes.append(("delete", key, rows.pop(key)))
            else:
                new = key if rng.random() < 0.7 else rng.randrange(4000)
                if new != key and new in rows:
                    continue
                changes += [
                    ("update_preimage", key, rows.pop(key)),
                    ("update_postimage", new, value),
                ]
                rows[new] = value
        if not changes:
            continue
        half = rng.randrange(len(changes) + 1)
        while 0 < half < len(changes) and changes[half][0] == "update_postimage":
            half += 1
        parts = [one for one in (changes[:half], changes[half:]) if one]
        written = [
            change_file(tmp_path / "log", one, 10 * step + at) for at, one in enumerate(parts)
        ]
        works = table.plan_merges(tmp_path / "log", written, step)
        table.commit_merges(runner(works), step)
        assert table.plan_merges(tmp_path / "log", written, step) is None
        found = table.dataset().to_table().to_pylist()
        assert sorted((row["id"], row["v"]) for row in found) == sorted(rows.items())
        files = max(files, len(open_delta(table.directory).file_uris()))
    assert files > 2 and max(concerned) > 1


DATES = ("0000-00-00", "2026-00-00", "2026-02-00", "2026-02-01", "2026-02-03", "2027-01-01")


@pytest.mark.parametrize("names", [("day",), ("id", "day"), ("day", "id")])
@pytest.mark.parametrize("seed", range(3))
def test_dates_that_arrow_cannot_hold_are_keys_as_others_are(tmp_path, monkeypatch, names, seed):
    """They are null in the lake, each with its text beside it."""
    rng = random.Random(seed)
    monkeypatch.setattr(rewrite, "SPLIT_SIZE", rng.choice((300, 1 << 20)))
    columns = (ColumnModel("id", "int"), ColumnModel("day", "date"), ColumnModel("v", "int"))
    model = TableModel("d", "t", columns, tuple((name, 0) for name in names))
    long, date = ColumnType.MYSQL_TYPE_LONG, ColumnType.MYSQL_TYPE_DATE
    shapes = tuple(
        ColumnShape(name, kind, nullable=False, unsigned=False,
                    primary_key_index=names.index(name) if name in names else None)
        for name, kind in (("id", long), ("day", date), ("v", long))
    )  # fmt: skip
    table = StateTable(tmp_path / "t", LakeTable(model), "p")
    table.create()
    (tmp_path / "log").mkdir()
    rows = {}
    for step in range(1, 9):
        changes = []
        for _ in range(rng.randrange(1, 9)):
            row = {"id": rng.randrange(3), "day": rng.choice(DATES), "v": rng.randrange(1000)}
            key = tuple(row[name] for name in names)
            if key not in rows:
                changes.append(("insert", row))
            elif rng.random() < 0.4:
                changes.append(("delete", rows.pop(key)))
                continue
            else:
                changes += [("update_preimage", rows[key]), ("update_postimage", row)]
            rows[key] = row
        held = [None if row["day"][5:7] == "00" or row["day"][8:] == "00" else
                datetime.date.fromisoformat(row["day"]) for _, row in changes]  # fmt: skip
        values = {"id": [row["id"] for _, row in changes], "v": [row["v"] for _, row in changes]}
        texts = [None if day else [("day", row["day"])]
                 for day, (_, row) in zip(held, changes, strict=True)]  # fmt: skip
        file = written_file(
            tmp_path / "log", shapes, [kind for kind, _ in changes],
            {**values, "day": pa.array(held, pa.date32())}, step, texts,
        )  # fmt: skip
        if rng.random() < 0.5:
            works = table.plan_merges(tmp_path / "log", [file], step)
            table.commit_merges(local_runner(1)(works), step)
        else:
            images = [(kind, json.dumps(row)) for kind, row in changes if kind != "update_preimage"]
            pre = iter([json.dumps(row) for kind, row in changes if kind == "update_preimage"])
            kinds = [kind.removesuffix("_postimage") for kind, _ in images]
            before = [
                next(pre) if kind == "update" else text if kind == "delete" else None
                for kind, (_, text) in zip(kinds, images, strict=True)
            ]
            after = [
                None if kind == "delete" else text
                for kind, (_, text) in zip(kinds, images, strict=True)
            ]
            table.apply(net_rows(table.shape, kinds, before, after, Counter), step, local_runner(1))
        found = table.dataset().to_table().to_pylist()
        shown = [
            (row["id"], str(row["day"] or dict(row["_lossless"])["day"]), row["v"]) for row in found
        ]
        assert sorted(shown) == sorted((r["id"], r["day"], r["v"]) for r in rows.values())
        if names[0] == "day":
            lost = table.dataset().to_table(filter=ds.field("day").is_null())
            assert lost.num_rows == sum(row["day"] is None for row in found)


@pytest.mark.parametrize("names", [("x",), ("x", "id")])
def test_negative_zero_is_the_key_that_zero_is(tmp_path, names):
    columns = (ColumnModel("id", "int"), ColumnModel("x", "double"))
    model = TableModel("d", "t", columns, tuple((name, 0) for name in names))
    table = StateTable(tmp_path / "t", LakeTable(model), "p")
    table.create()
    for step, kind, old, new in (
        (1, "insert", None, 0.0),
        (2, "update", 0.0, -0.0),
        (3, "update", -0.0, 0.0),
        (4, "delete", -0.0, None),
    ):
        before, after = (None if x is None else json.dumps({"id": 1, "x": x}) for x in (old, new))
        table.apply(
            net_rows(table.shape, [kind], [before], [after], Counter), step, local_runner(1)
        )
        assert table.dataset().to_table()["x"].to_pylist() == [x for x in [new] if x is not None]


def test_rows_of_another_table_are_refused(tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    wider = TableModel(
        "d", "t", (ColumnModel("id", "int"), ColumnModel("v", "int"), ColumnModel("w", "int")), (("id", 0),)
    )  # fmt: skip
    table = StateTable(tmp_path / "t", LakeTable(wider), "p")
    table.create()
    file = change_file(log, [("insert", 1, 1)], 1)
    with pytest.raises(SchemaMismatchError, match=r"lack w.*binlog_row_image=FULL"):
        local_runner(1)(table.plan_merges(log, [file], 1))
