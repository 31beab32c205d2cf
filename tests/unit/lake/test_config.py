import time
from types import SimpleNamespace

import pytest

from replica_client.errors import ConfigError
from replica_client.lake.config import load_config
from replica_client.lake.unmerged import ALWAYS, MergePolicy
from replica_client.storage.location import ObjectUrl

GOOD = '[source]\nurl = "mysql://repl:hunter2@db1/"\n[pipeline]\noutput = "lake"\n'


def write(tmp_path, text):
    file = tmp_path / "shop.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[source\n", ["not TOML"]),
        (GOOD + "[sorce]\n", ["[sorce]", "did you mean source?"]),
        (GOOD + 'triger = "continuous"\n', ["[pipeline]", "'triger'", "did you mean trigger?"]),
        (GOOD + 'trigger = "continous"\n', ["trigger", '"available-now" or "continuous"']),
        (GOOD + 'interval = "soon"\n', ["interval", "5 seconds"]),
        (GOOD + 'interval = "300 ms"\n', ["interval", "5 seconds"]),
        (GOOD + "max_rows_per_trigger = true\n", ["max_rows_per_trigger", "a whole number"]),
        (GOOD + 'max_bytes_per_trigger = "much"\n', ["max_bytes_per_trigger: 'much'"]),
        (GOOD.replace("url =", "ulr ="), ["'ulr'", "did you mean url?"]),
        (GOOD.replace("[source]\n", "[source]\ntables = [1]\n"), ["tables", "or a list of them"]),
        (GOOD.replace("[source]\n", '[source]\ntables = "shop"\n'), ["[source]", "no dot"]),
        (GOOD.replace('output = "lake"', ""), ["output", "missing"]),
        ('[pipeline]\noutput = "lake"\n', ["url", "path"]),
        (GOOD + '[spark]\n"driver.memory" = "1g"\n', ["driver.memory", "spark."]),
        ("source = 1\n", ["[source]"]),
        (GOOD + 'engine = "dask"\n', ["[pipeline] engine", "local"]),
        (GOOD.replace('"lake"', '"hdfs://b/a"'), ["[pipeline] output", "hdfs:// is not supported"]),
        (GOOD + 'checkpoint = "hdfs://b/a"\n', ["checkpoint", "hdfs:// is not supported"]),
        ('[source]\npath = "hdfs://b/a"\n', ["[source] path", "hdfs:// is not supported"]),
        (GOOD + '[lake]\nmerge = "soon"\n', ["[lake] merge", "'soon'", "adaptive"]),
        (
            GOOD + '[lake.tables."shop.a"]\nmerge = "1 day"\n',
            ['[lake.tables."shop.a"] merge', "1 day"],
        ),
        (GOOD + '[lake.tables.orders]\nmerge = "1m"\n', ["has no dot"]),
        (GOOD + '[lake.tables."shop.a"]\nmerg = "1m"\n', ["has no key 'merg'", "merge"]),
        (GOOD + "[lake]\ntables = 5\n", ["[lake] tables", "sections"]),
        (GOOD + "[lake]\nhistory = 5\n", ["[lake] history", "true, false, or a list of tables"]),
        (GOOD + '[lake]\nhistory = ["orders"]\n', ["[lake] history", "has no dot"]),
        (GOOD + "[lake]\nhistory = true\ncurrent = false\n", ["history", "current tables"]),
        (GOOD + '[lake]\nreport = "hdfs://b/a"\n', ["report", "hdfs:// is not supported"]),
        (GOOD + '[storage]\naws_region = "a"\n', ["storage.aws_region", "no path is the URL"]),
        (GOOD + "interval = 5\n", ["shop.toml, line 5: [pipeline] interval"]),
    ],
)
def test_wrong_key_names_file_and_key(tmp_path, text, words):
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    message = str(caught.value)
    assert all(word in message for word in [str(file), *words]), message
    assert "\n" not in message
    assert "hunter2" not in message


def test_paths_are_relative_to_the_file(tmp_path):
    text = (
        '[source]\npath = ["a.000001", "/b/*"]\n[pipeline]\noutput = "lake"\n[spark]\nspark.x = 1\n'
    )
    config = load_config(write(tmp_path, text))
    assert config.source["path"] == f"{tmp_path}/a.000001,/b/*"
    assert config.source["startingPosition"] == "earliest"
    assert config.change_log == tmp_path / "lake" / "change_log"
    assert config.checkpoint == tmp_path / "lake" / "checkpoint"
    assert config.spark == {"spark.x": "1"}


def test_secrets_are_not_shown(tmp_path):
    config = load_config(write(tmp_path, GOOD))
    assert "hunter2" not in repr(config)
    assert config.origin == "repl@db1:3306"


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("", ()),
        ("history = true", ("*.*",)),
        ("history = false", ()),
        ('history = ["shop.orders", "a.*"]', ("shop.orders", "a.*")),
    ],
)
def test_tables_with_history(tmp_path, text, patterns):
    file = tmp_path / "pipeline.toml"
    file.write_text(f"{GOOD}[lake]\n{text}\n")
    assert load_config(file).lake.history == patterns


def test_when_changes_are_merged(tmp_path):
    file = tmp_path / "pipeline.toml"
    file.write_text(
        f'{GOOD}[lake]\nmerge = "adaptive"\n[lake.tables."shop.a"]\nmerge = "2 minutes"\n'
    )
    lake = load_config(file).lake
    assert lake.merge_policy(("shop", "b")) == MergePolicy(None, 3600.0)
    assert lake.merge_policy(("shop", "a")).seconds == 120.0
    file.write_text(GOOD)
    assert load_config(file).lake.merge_policy(("shop", "a")) == ALWAYS


def waiting(*sizes):
    return [SimpleNamespace(size=size) for size in sizes]


def test_when_they_are_due():
    now = time.time()
    assert ALWAYS.is_due(waiting(1), 1000, now)
    adaptive = MergePolicy.parse("adaptive")
    assert not adaptive.is_due(waiting(50, 74), 1000, now)
    assert adaptive.is_due(waiting(50, 75), 1000, now)
    assert adaptive.is_due(waiting(1), 1000, now - 3601)
    assert not MergePolicy.parse("10 minutes").is_due(waiting(1 << 40), 1, now - 590)
    assert MergePolicy.parse("10 minutes").is_due(waiting(1), 1000, now - 600)
    assert MergePolicy.parse("1g").is_due(waiting(*[1] * 200), 1, now)
    assert not MergePolicy.parse("1g").is_due(waiting(*[1] * 199), 1, now)
    assert MergePolicy.parse("1k").is_due(waiting(1000, 24), 1 << 40, now)
    assert not MergePolicy.parse("1k").is_due(waiting(1000, 23), 0, now - 1e6)


@pytest.mark.parametrize(
    "output",
    ["s3://b/lake", "s3a://b/lake", "gs://b/lake", "abfss://box@account.dfs.core.windows.net/lake"],
)
def test_output_in_a_store_makes_no_directory_here(tmp_path, monkeypatch, output):
    """Of each scheme; it became one called ``s3:`` once."""
    monkeypatch.chdir(tmp_path)
    config = load_config(write(tmp_path, GOOD.replace('"lake"', f'"{output}"')))
    assert isinstance(config.output, ObjectUrl)
    assert isinstance(config.change_log, ObjectUrl)
    assert str(config.change_log) == output.replace("s3a:", "s3:") + "/change_log"
    assert str(config.checkpoint) == output.replace("s3a:", "s3:") + "/checkpoint"
    assert [path.name for path in tmp_path.iterdir()] == ["shop.toml"]
