"""Delta tables are read through Arrow's own file systems, whatever their directory is called."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

import replica_client
from replica_client.lake.data_files import dataset_of
from replica_client.storage.durable import file_name


@pytest.mark.parametrize(
    "name", ["orders", "..", "../x", "a/b", "é", "%2E%2E", "a\\b", "a?b#c", "_delta_log", "日" * 60]
)
def test_a_table_of_any_name_is_read(name, tmp_path):
    inside = tmp_path / "tables"
    directory = inside / file_name(name, firm=True)
    write_deltalake(str(directory), pa.table({"a": [1, 2]}))
    write_deltalake(str(directory), pa.table({"a": [3]}), mode="append")
    found = dataset_of(DeltaTable(str(directory)))
    assert sorted(found.to_table()["a"].to_pylist()) == [1, 2, 3]
    assert list(inside.iterdir()) == [directory]
    assert list(tmp_path.iterdir()) == [inside]
    # One in Python, whose files Arrow's threads free, may abort the process at its end.
    assert isinstance(found.filesystem.base_fs, fs.LocalFileSystem)


def test_no_other_way_is_taken():
    package = Path(replica_client.__file__).parent
    found = {
        path.name: calls
        for path in package.rglob("*.py")
        if (calls := re.findall(r"to_pyarrow_(?:table|dataset)\(", path.read_text("utf-8")))
    }
    assert found == {"data_files.py": ["to_pyarrow_dataset("]}
