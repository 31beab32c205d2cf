import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException

import replica_client as rc
from replica_client.errors import ConfigError
from replica_client.lake.pipeline.workers import PipelineError, cause_of
from replica_client.storage.object_store import ObjectStore
from tests.object_stores import SECRET
from tests.spark.binlogs import DATA, FILES, envelope_of, rows_of, served

PATH = str(DATA / "shop-bin.0*")
TABLES = ("customers", "products", "orders")


def load(spark, **options):
    reader = spark.read.format("mysql-binlog")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def failure(spark, **options):
    """The one line of a query that cannot work."""
    with pytest.raises((AnalysisException, PythonException)) as caught:
        load(spark, **options).collect()
    error = cause_of(caught.value)
    assert "\n" not in str(error)
    return error


@pytest.mark.parametrize("size", ["64m", "700"])
def test_envelope_equals_the_reader(spark, size):
    frame = load(spark, path=PATH, partitionSize=size)
    assert frame.rdd.getNumPartitions() == 1 if size == "64m" else frame.rdd.getNumPartitions() > 10
    assert rows_of(frame) == envelope_of(list(FILES))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("size", ["64m", "700"])
def test_typed_columns_equal_the_reader(spark, table, size):
    expected = [
        row
        for batch in rc.open_binlog(list(FILES), tables=[f"shop.{table}"]).batches()
        for row in batch.to_pylist()
    ]
    order = ("_commit_version", "_event_index", "_row_index")
    frame = load(spark, path=PATH, partitionSize=size, table=f"shop.{table}")
    found = frame.toArrow().to_pylist()
    found.sort(key=lambda row: tuple(row[name] for name in order))
    assert len(expected) > 4
    assert [{name: row[name] for name in expected[0]} for row in found] == expected


def test_columns_and_tables(spark):
    frame = load(spark, path=PATH, table="shop.orders", columns="id,total")
    assert frame.columns[-2:] == ["id", "total"]
    assert dict(frame.dtypes)["total"] == "decimal(12,2)"
    frame = load(spark, path=PATH, tables="shop.*", exclude="shop.orders", columns="id,sku")
    frame = frame.where("operation in ('insert', 'update', 'delete')")
    assert {row.table for row in frame.collect()} == {"customers", "products"}
    assert all(set(json.loads(row.after)) <= {"id", "sku"} for row in frame.collect() if row.after)


def test_a_pattern_that_matches_no_table(spark):
    mistyped = {"tables": "shop.customers,shop.ordrs"}
    said = "no table shop.ordrs was read; did you mean shop.orders?"
    assert said in str(failure(spark, path=PATH, **mistyped))
    frame = load(spark, path=PATH, allowEmpty="true", tables="shop.ordrs")
    assert not [row for row in frame.collect() if row.operation in ("insert", "update", "delete")]
    # The second file alone has rows of tables whose CREATE TABLE is in the first.
    assert load(spark, path=str(FILES[1]), tables="shop.orders,shop.products").count()


def test_sql_finds_the_format(spark):
    spark.sql(f"create temporary view changes using `mysql-binlog` options (path '{PATH}')")
    [row] = spark.sql(
        "select count(*) as n from changes where table = 'orders' and operation <> 'create_table'"
    ).collect()
    assert row.n == sum(change[7] == "orders" for change in envelope_of(list(FILES)))


def test_starting_and_ending_position(spark):
    everything = envelope_of(list(FILES))
    middle = everything[40]
    position = middle[5]
    start = next(
        t.start for t in rc.open_binlog(list(FILES)).transactions() if t.commit_version == position
    )
    text = f"{start.file}:{start.offset}"
    after = rows_of(load(spark, path=PATH, startingPosition=text))
    before = rows_of(load(spark, path=PATH, endingPosition=text, partitionSize="1k"))
    assert before + after == everything
    assert before
    assert after


def test_gtid_sets_reach_the_executors(spark):
    everything = envelope_of(list(FILES))
    gtids = list(dict.fromkeys(row[4] for row in everything))
    uuid = gtids[0].rpartition(":")[0]
    first, last = (int(gtids[at].rpartition(":")[2]) for at in (3, 12))
    options = {"startingPosition": f"{uuid}:1-{first}", "endingPosition": f"{uuid}:1-{last}"}
    found = rows_of(load(spark, path=PATH, **options))
    wanted = {f"{uuid}:{number}" for number in range(first + 1, last + 1)}
    assert found == [row for row in everything if row[4] in wanted]
    assert 0 < len(found) < len(everything)


def test_json_as_variant(spark):
    text = load(spark, path=PATH, tables="shop.*").where("operation = 'insert'")
    variant = load(spark, path=PATH, tables="shop.*", json="variant").where("operation = 'insert'")
    assert dict(variant.dtypes)["after"] == "variant"
    expected = text.selectExpr("to_json(parse_json(after)) as row").collect()
    assert variant.selectExpr("to_json(after) as row").collect() == expected
    assert all(row.before is None for row in variant.collect())


def test_live_source_equals_its_files(spark):
    with served() as source:
        assert rows_of(load(spark, url=source.url)) == envelope_of(list(FILES))
        frame = load(spark, url=source.url, table="shop.products")
        assert dict(frame.dtypes)["price"] == "decimal(10,2)"
        assert frame.count() == 8


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"path": PATH, "tabels": "shop.*"}, ConfigError, ["'tabels'", "did you mean tables?"]),
        ({"path": "/nonexistent/binlog.000001"}, ConfigError, ["/nonexistent", "no such file"]),
        ({"path": PATH, "table": "shop.nope"}, PipelineError, ["shop.nope", "is not in"]),
        ({"path": PATH, "table": "shop.orders", "columns": "idd"}, ConfigError, ["'idd'"]),
        ({"path": __file__}, PipelineError, ["not a binlog"]),
        ({"path": PATH, "startingPosition": "shop-bin.000009:4"}, ConfigError, ["no such file"]),
    ],
)
def test_fault_is_one_line(spark, options, kind, words):
    error = failure(spark, **options)
    assert type(error) is kind
    assert all(word in str(error) for word in words), error


def test_wrong_password_is_one_line(spark):
    with served() as source:
        url = source.url.replace("secret", "hunter2")
        error = failure(spark, url=url)
    assert "Access denied" in str(error)
    assert "'repl'" in str(error)
    assert "hunter2" not in str(error)


def test_nobody_listens_is_one_line(spark):
    with served() as source:
        url = source.url
    error = failure(spark, url=url)
    assert "connect" in str(error).lower()
    assert "secret" not in str(error)


def test_truncated_file_is_refused(spark, tmp_path):
    cut = tmp_path / FILES[0].name
    cut.write_bytes(FILES[0].read_bytes()[:-7])
    with pytest.raises(Exception, match="TruncatedEventError"):
        load(spark, path=str(cut)).collect()


def test_plan_does_not_show_the_password(spark):
    with served() as source:
        frame = load(spark, url=source.url)
        plan = frame._jdf.queryExecution().toString()
    assert "secret" not in plan


def test_an_object_store(spark, bucket, s3_environment, monkeypatch, tmp_path):
    store = ObjectStore(f"{bucket}/backup")
    for path in FILES:
        store.put(Path(path).name, Path(path).read_bytes())
    # Java and its workers have the environment that was there when the session began.
    options = {
        "storage.aws_endpoint_url": s3_environment,
        "storage.allow_http": "true",
        "storage.aws_access_key_id": "AKIATESTS",
        "storage.aws_secret_access_key": SECRET,
    }
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    wanted = envelope_of(list(FILES))
    for path in (f"{bucket}/backup", f"{bucket}/backup/shop-bin.0*".replace("s3:", "s3a:")):
        frame = spark.read.format("mysql-binlog").options(path=path, **options).load()
        assert rows_of(frame) == wanted
    stream = (
        spark.readStream.format("mysql-binlog").options(path=f"{bucket}/backup", **options).load()
    )
    query = stream.writeStream.format("memory").queryName("stored").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert rows_of(spark.table("stored")) == wanted


def test_a_view_and_no_table_of_the_session(spark):
    made = (
        f"using `mysql-binlog` options (path '{PATH}', table 'shop.orders', "
        'columns \'["id", "total"]\')'
    )
    with pytest.raises(AnalysisException) as caught:
        spark.sql(f"create table shop_orders {made}")
    assert "write CREATE TEMPORARY VIEW" in str(cause_of(caught.value))
    spark.sql(f"create temporary view shop_orders {made}")
    wanted = load(spark, path=PATH, table="shop.orders", columns="id,total").select("id", "total")
    assert sorted(spark.sql("select id, total from shop_orders").collect(), key=repr) == sorted(
        wanted.collect(), key=repr
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "/nowhere/binlog.*"}, "/nowhere/binlog.*: no file matches"),
        ({"url": "mysql://repl:s3cret@127.0.0.1:1/"}, "no connection to 127.0.0.1:1"),
    ],
)
def test_what_fails_while_it_is_planned(spark, options, words):
    """It came as an error of pickling, with ours somewhere in it."""
    with pytest.raises((AnalysisException, PythonException)) as caught:
        load(spark, **options).collect()
    text = str(caught.value)
    assert words in text and "Pickl" not in text and "s3cret" not in text
    assert words in str(cause_of(caught.value))


def test_a_wrong_password_is_one_line(spark):
    with served() as source:
        url = source.url.replace("secret", "hunter2")
        error = failure(spark, url=url)
    assert "Access denied" in str(error) and "'repl'" in str(error)
    assert "hunter2" not in str(error)
