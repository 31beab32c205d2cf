"""The envelope of the data source is the change log of the lake."""

from pyspark.sql.pandas.types import to_arrow_schema

from replica_client.lake.change_log_files import CHANGE_LOG_SCHEMA
from replica_client.lake.spark.source.shapes import ENVELOPE_SCHEMA


def test_both_have_the_same_columns() -> None:
    assert to_arrow_schema(ENVELOPE_SCHEMA, timezone="UTC").equals(CHANGE_LOG_SCHEMA)
