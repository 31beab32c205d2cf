"""Transforms as options of the source: the rows that they make elsewhere, in all shapes and from all sources."""

import json

import pytest

import replica_client as rc
from replica_client.errors import ConfigError
from replica_client.lake.spark.source.data_source import BinlogDataSource
from replica_client.rows.json_values import row_to_json
from replica_client.stream.transforms.transformer import Transformer
from tests.spark.binlogs import DATA, FILES, rows_of, served

PATH = str(DATA / "shop-bin.0*")
KEY = "a key of sixteen bytes or more"
TRANSFORMS = [
    {
        "tables": ["shop.customers"],
        "keep": ["id", "country"],
        "hash": ["name"],
        "rename": {"country": "land"},
        "route": "people.customers",
    },
    {"tables": ["shop.orders"], "where": "id > 2"},
]


@pytest.fixture
def options(tmp_path):
    key = tmp_path / "key"
    key.write_text(KEY + "\n")
    return {"transform": json.dumps(TRANSFORMS), "transformKeyFile": str(key)}


def expected():
    """The rows that the transforms give without Spark."""
    transformer = Transformer.of([{**one, "key": KEY} for one in TRANSFORMS])
    rows = []
    for transaction in rc.open_binlog(FILES).transactions():
        shown = transformer.transaction(transaction)
        for change in shown.changes:
            images = [
                None if one is None else row_to_json(one) for one in (change.before, change.after)
            ]
            position = (change.file, change.offset, change.event_index, change.row_index)
            content = (change.database, change.table, change.kind, *images)
            rows.append((*position, change.gtid, shown.commit_version, *content))
    return rows


def given(**options):
    """All rows of a batch, without Java."""
    source = BinlogDataSource(options)
    reader = source.reader(source.schema())
    return [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def test_the_envelope_has_what_the_transforms_make(spark, options):
    frame = spark.read.format("mysql-binlog").option("path", PATH).options(**options).load()
    wanted = expected()
    assert rows_of(frame) == wanted
    names = {row[7] for row in wanted}
    assert "customers" in names
    texts = [str(tuple(row)) for row in frame.collect()]
    secrets = {
        c.after["name"] for c in rc.open_binlog(FILES, tables="shop.customers").changes() if c.after
    }
    assert secrets
    assert not [text for text in texts for secret in secrets if secret in text]
    assert any("is withheld" in text for text in texts)
    with served() as source:
        live = spark.read.format("mysql-binlog").option("url", source.url).options(**options).load()
        assert rows_of(live) == wanted


def test_one_table_has_the_columns_behind_the_transforms(options):
    rows = given(path=PATH, table="shop.customers", **options)
    wanted = [json.loads(row[-1] or row[-2]) for row in expected() if row[7] == "customers"]
    assert wanted
    found = [row for row in rows if row["_change_type"] in ("insert", "delete", "update_postimage")]
    assert [{name: row[name] for name in wanted[0]} for row in found] == wanted
    assert set(rows[0]) - {"_absent", "_lossless"} == {
        *(
            name
            for name in rows[0]
            if name.startswith("_") and name not in ("_absent", "_lossless")
        ),
        *("id", "name", "land"),
    }


def test_partitions_of_any_size_give_the_same(options):
    whole = given(path=PATH, **options)
    cut = given(path=PATH, partitionSize="300", **options)
    assert sorted(map(str, cut)) == sorted(map(str, whole))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"transform": "no"}, "transform is a JSON list"),
        ({"transform": '{"tables": "a.b"}'}, "transform is a JSON list"),
        ({"transform": '[{"tables": "a.b", "hash": ["c"], "keep": []}]'}, "key: hash needs"),
        ({"transform": '[{"tables": "a.b", "key": "sixteen bytes or more"}]'}, "transformKeyFile"),
        ({"transform": '[{"tables": "a.b", "outbox": true}]'}, "outbox"),
        ({"transform": "[]", "columns": "a"}, "columns does not go with transform"),
        ({"transform": "[]", "filterPushdown": "true"}, "filterPushdown does not go"),
        ({"transformKeyEnv": "NOT_THERE"}, "no environment variable NOT_THERE"),
        ({"transform": "[]", "table": "a.b", "asOf": "latest"}, "transform is for changes"),
    ],
)
def test_what_does_not_fit_is_refused(more, words):
    with pytest.raises(ConfigError, match=words):
        BinlogDataSource({"path": PATH, **more})


def test_an_error_tells_nothing_of_rows(options, tmp_path):
    data = bytearray(FILES[0].read_bytes())
    one = next(rc.open_binlog(FILES[0], tables="shop.customers").changes())
    secret = one.after["name"].encode()
    at = data.index(secret)
    data[at : at + len(secret)] = b"\xff" * len(secret)
    damaged = tmp_path / FILES[0].name
    damaged.write_bytes(data)
    with pytest.raises(rc.BinlogDecodeError, match="the text is withheld"):
        given(path=str(damaged), **options)
