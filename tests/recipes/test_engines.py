"""One query over binlog files gives the same in every engine that reads Arrow, and a live source the same as files."""

from __future__ import annotations

from decimal import Decimal

import pytest

import replica_client as rc
from tests.recipes.served import DATA, served

pa = pytest.importorskip("pyarrow")

Counts = dict[str, tuple[int, Decimal]]


def expected() -> Counts:
    found: Counts = {}
    for change in rc.open_binlog(DATA, tables="shop.orders").changes():
        rows = {
            "insert": [("insert", change.after)],
            "update": [("update_preimage", change.before), ("update_postimage", change.after)],
            "delete": [("delete", change.before)],
        }[change.kind]
        for kind, row in rows:
            assert row is not None
            if row["quantity"] >= 2:
                count, total = found.get(kind, (0, Decimal(0)))
                found[kind] = count + 1, total + row["total"]
    return found


SQL = (
    "SELECT _change_type, count(*) AS n, sum(total) AS total FROM {} WHERE quantity >= 2 GROUP BY 1"
)


def from_rows(rows: list[tuple[str, int, Decimal]]) -> Counts:
    return {str(kind): (count, total) for kind, count, total in rows}


def orders() -> rc.BinlogTable:
    return rc.scan_binlog(DATA)["shop.orders"]


def test_pyarrow() -> None:
    import pyarrow.compute as pc

    reader = pa.RecordBatchReader.from_stream(orders())
    dataset = pytest.importorskip("pyarrow.dataset").Scanner.from_batches(
        reader, filter=pc.field("quantity") >= 2, columns=["_change_type", "total"]
    )
    table = dataset.to_table().unify_dictionaries().combine_chunks()
    found = table.group_by("_change_type").aggregate([([], "count_all"), ("total", "sum")])
    rows = [(r["_change_type"], r["count_all"], r["total_sum"]) for r in found.to_pylist()]
    assert from_rows(rows) == expected()


def test_pandas() -> None:
    pytest.importorskip("pandas", reason="pip install '.[recipes]'")
    frame = pa.table(orders()).to_pandas()
    groups = frame[frame.quantity >= 2].groupby("_change_type", observed=True)
    assert {k: (len(g), sum(g.total)) for k, g in groups} == expected()


def test_polars() -> None:
    pl = pytest.importorskip("polars", reason="pip install '.[recipes]'")
    from replica_client.compat.polars_frames import lazy_frame

    for frame in (lazy_frame(orders()), pl.DataFrame(orders()).lazy()):
        query = frame.filter(pl.col("quantity") >= 2).group_by("_change_type")
        found = query.agg(pl.len(), pl.col("total").sum()).collect()
        assert from_rows(found.rows()) == expected()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb", reason="pip install '.[recipes]'")
    from replica_client.compat.duckdb_views import query

    plain = orders()
    assert from_rows(duckdb.sql(SQL.format("plain")).fetchall()) == expected()
    connection = duckdb.connect()
    connection.register("plain", plain)
    assert from_rows(connection.sql(SQL.format("plain")).fetchall()) == expected()
    tables = rc.scan_binlog(DATA)
    for name in ("shop.orders", "orders", '"Shop"."ORDERS"'):
        assert from_rows(query(SQL.format(name), tables).fetchall()) == expected()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_datafusion() -> None:
    datafusion = pytest.importorskip("datafusion", reason="pip install '.[recipes]'")
    context = datafusion.SessionContext()
    context.from_arrow(orders(), "orders")
    rows = context.sql(SQL.format("orders")).to_pylist()
    assert from_rows([(r["_change_type"], r["n"], r["total"]) for r in rows]) == expected()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_ibis() -> None:
    ibis = pytest.importorskip("ibis", reason="pip install '.[recipes]'")
    table = ibis.memtable(pa.table(orders().select(["_change_type", "quantity", "total"])))
    chosen = table.filter(table.quantity >= 2)
    groups = chosen.group_by("_change_type")
    found = groups.aggregate(n=chosen.count(), total=chosen.total.sum()).to_pyarrow().to_pylist()
    assert from_rows([(r["_change_type"], r["n"], r["total"]) for r in found]) == expected()


def test_polars_reads_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    pl = pytest.importorskip("polars", reason="pip install '.[recipes]'")
    from replica_client.archive.scan import FileTables
    from replica_client.compat.polars_frames import scan

    asked: list[tuple[str, ...]] = []
    batches = FileTables.batches

    def watched(self: FileTables, table: tuple[str, str], columns: list[str], *rest: object):
        asked.append(tuple(columns))
        return batches(self, table, columns, *rest)

    monkeypatch.setattr(FileTables, "batches", watched)
    frame = scan(DATA, "shop.orders", max_rows=2)
    assert not asked
    whole = frame.collect()
    assert asked.pop() == tuple(whole.columns)
    assert frame.select("total", "id").collect().equals(whole.select("total", "id"))
    assert set(asked.pop()) == {"id", "total"}
    chosen = frame.filter(pl.col("quantity") > 2).select("id").collect()
    assert chosen.equals(whole.filter(pl.col("quantity") > 2).select("id"))
    assert set(asked.pop()) == {"id", "quantity"}
    assert frame.head(5).collect().equals(whole.head(5))
    assert frame.slice(7, 9).select("id").collect().equals(whole.slice(7, 9).select("id"))
    assert frame.filter(pl.col("id") > 3).head(4).collect().equals(
        whole.filter(pl.col("id") > 3).head(4)
    )  # fmt: skip


def test_a_live_source_gives_what_its_files_give() -> None:
    whole = rc.scan_binlog(DATA)
    transactions = list(rc.open_binlog(DATA).transactions())
    half = transactions[len(transactions) // 2].start
    with served() as source:
        live = rc.scan_binlog(source.url)
        assert list(live) == list(whole)
        for name, table in whole.items():
            assert pa.table(live[name]).to_pylist() == pa.table(table).to_pylist()
        for options in (
            {"since": half},
            {"until": half},
            {"where": "id > 3", "tables": "shop.orders"},
        ):
            options = {"columns": ["_offset", "id"], **options}
            one, other = (rc.scan_binlog(it, **options)["shop.orders"] for it in (source.url, DATA))
            assert pa.table(one).to_pylist() == pa.table(other).to_pylist()
            assert pa.table(one).num_rows


def test_duckdb_needs_no_more_than_is_named() -> None:
    pytest.importorskip("duckdb", reason="pip install '.[recipes]'")
    from replica_client.compat.duckdb_views import Needed

    table = orders()
    everything = table.schema.names
    for sql, columns in {
        "SELECT id FROM orders": ["id"],
        "SELECT ID, sum(Total) FROM shop.orders GROUP BY ALL": ["id", "total"],
        "SELECT count(*) FROM orders": [everything[0]],
        "WITH q AS (SELECT id FROM orders WHERE note IS NULL) SELECT * FROM q": everything,
        "SELECT o.id FROM orders o JOIN orders p USING (sku)": ["id", "sku"],
        "SELECT o FROM orders o": everything,
        "FROM orders": everything,
        "SELECT a.id FROM orders a NATURAL JOIN orders b": everything,
        "SELECT COLUMNS('i.*') FROM orders": everything,
        "SUMMARIZE orders": everything,
        "not SQL at all": everything,
    }.items():
        needed = Needed.of(sql)
        assert needed.uses(table), sql
        assert needed.columns_of(table) == columns, sql
    assert not Needed.of("SELECT 1 FROM customers").uses(table)
    assert not Needed.of("SELECT 1 FROM other.orders").uses(table)
