"""What users give as a path or URL."""

import pickle
from pathlib import Path

import pytest

from replica_client.errors import ConfigError
from replica_client.storage.location import ObjectUrl, is_url, local_path, location

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("s3a://bucket/a/b/", "s3://bucket/a/b"),
        ("S3://bucket", "s3://bucket/"),
        ("gs://bucket//a//b", "gs://bucket/a/b"),
        (
            "abfss://box@account.dfs.core.windows.net/a",
            "abfss://box@account.dfs.core.windows.net/a",
        ),
        ("s3://bucket/a b/ä.*", "s3://bucket/a b/ä.*"),
    ],
)
def test_urls(text: str, found: str) -> None:
    url = location(text)
    assert isinstance(url, ObjectUrl)
    assert str(url) == found


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b", "a/b"),
        ("file:///a/b%20c", "/a/b c"),
        ("file:/a/b.*", "/a/b.*"),
        ("C:/a", "C:/a"),
        ("a:b", "a:b"),
    ],
)
def test_paths(text: str, path: str) -> None:
    assert location(text) == Path(path) == local_path(text, "output")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hdfs://host/a", "hdfs:// is not supported; give a local path, s3://"),
        ("http://host/a", "http:// is not supported"),
        ("wasbs://box@a/b", "wasbs:// is not supported"),
        ("s3:///a", "no bucket is named; write s3://BUCKET/NAME"),
        ("abfss://box/a", "write abfss://CONTAINER@ACCOUNT"),
        (f"s3://key:{SECRET}@bucket/a", "credentials come from the environment"),
        (f"hdfs://user:{SECRET}@bucket/a", "hdfs:// is not supported"),
        (f"abfss://box:{SECRET}@host/a", "credentials come from the environment"),
        ("s3://bucket/a/../b", "no parts . and .."),
        ("file://host/a", "write file:///DIRECTORY/NAME"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        location(text)
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", ["s3://bucket/a", "gs://bucket", "abfss://b@h/c", "ftp://a/b"])
def test_not_local(text: str) -> None:
    scheme = text.partition(":")[0]
    with pytest.raises(ConfigError, match=f"{scheme}:// is not supported"):
        local_path(text, "output")


def test_a_url_as_a_path() -> None:
    with pytest.raises(ConfigError, match="given as text"):
        location(Path("s3://bucket/a"))


def test_parts() -> None:
    url = ObjectUrl.parse("s3://bucket/a/b", {"aws_secret_access_key": SECRET})
    assert (url.name, str(url.parent), str(url.parent.parent)) == (
        "b",
        "s3://bucket/a",
        "s3://bucket/",
    )
    assert str(url / "c/d") == "s3://bucket/a/b/c/d"
    assert (url / "c").options == url.options
    assert SECRET not in repr(url)
    assert pickle.loads(pickle.dumps(url)) == url
    assert not is_url("C:/a") and is_url("mysql://a")
