"""Objects of a real S3 server: moto's."""

import io
import os
from collections.abc import Callable

import pytest

from replica_client.errors import (
    ConfigError,
    ObjectNotFoundError,
    StorageConflictError,
    StorageError,
)
from replica_client.storage import files
from replica_client.storage.files import (
    ObjectReader,
    file_or_none,
    files_in,
    matching_files,
    read_at,
)
from replica_client.storage.location import ObjectUrl, location, storage_error
from replica_client.storage.object_store import PART_SIZE, ObjectStore
from tests.object_stores import SECRET


def test_conditions(bucket: str) -> None:
    store = ObjectStore(f"{bucket}/a")
    store.require_conditional_put()
    first = store.create("state", b"1")
    with pytest.raises(StorageConflictError, match="another process wrote it"):
        store.create("state", b"2")
    second = store.replace("state", b"2", first)
    with pytest.raises(StorageConflictError):
        store.replace("state", b"3", first)
    assert store.get("state") == (b"2", second)
    store.delete("state", "never there")
    with pytest.raises(ObjectNotFoundError, match=f"{bucket}/a/state: no such object"):
        store.get("state")
    with pytest.raises(StorageError):
        store.replace("state", b"3", second)
    assert list(store.objects()) == []


def test_a_store_that_ignores_conditions_is_refused(make_bucket: Callable[..., str]) -> None:
    store = ObjectStore(make_bucket("careless"))
    with pytest.raises(StorageError, match="ignores If-None-Match.*use a store with conditional"):
        store.require_conditional_put()
    assert list(store.objects()) == []


def test_a_store_that_fails_now_and_then(make_bucket: Callable[..., str]) -> None:
    """Answers that are lost behind a write that was made are no conflict with oneself."""
    store = ObjectStore(make_bucket("flaky"))
    version = store.create("state", b"0")
    for at in range(1, 5):
        version = store.replace("state", b"%d" % at, version)
        store.create(f"new-{at}", b"%d" % at)
    assert store.get("state")[0] == b"4"
    assert len(list(store.objects())) == 5


@pytest.mark.parametrize("prefix", ["", "aws_", "AWS_"])
def test_options_of_connections(prefix: str, bucket: str) -> None:
    """They stand beside those of the store, as deltalake and environments have them."""
    options = {f"{prefix}{name}": "true" for name in ("allow_http", "allow_invalid_certificates")}
    options |= {f"{prefix}timeout": "20s", f"{prefix}connect_timeout": "5s"}
    store = ObjectStore(location(f"{bucket}/a", options))
    store.create("one", b"1")
    assert store.get("one")[0] == b"1"
    with pytest.raises(ConfigError, match="nosuch"):
        ObjectStore(location(f"{bucket}/a", {f"{prefix}nosuch": "1"}))


def test_large_objects(bucket: str) -> None:
    store = ObjectStore(bucket)
    data = os.urandom(PART_SIZE + 12345)
    assert store.upload("large", io.BytesIO(data)).size == len(data)
    assert store.upload("pieces", iter([data[:1000], data[1000:]])).size == len(data)
    with ObjectReader(ObjectUrl.parse(f"{bucket}/pieces")) as stream:
        assert stream.read(10) == data[:10]
        assert stream.seek(-7, io.SEEK_END) == len(data) - 7
        assert stream.read() == data[-7:]
        assert stream.seek(PART_SIZE - 3) and stream.read(9) == data[PART_SIZE - 3 : PART_SIZE + 6]
        assert read_at(stream, PART_SIZE - 1, 5) == data[PART_SIZE - 1 : PART_SIZE + 4]
        assert read_at(stream, len(data) - 2, 5) == data[-2:]
        assert read_at(stream, len(data), 5) == b""
        assert stream.read(3) == data[PART_SIZE + 6 : PART_SIZE + 9]
        assert stream.seek(0) == 0
        assert read_at(stream, 0, len(data)) == data == stream.read()


def test_an_object_is_opened_with_one_request(bucket: str, monkeypatch) -> None:
    store = ObjectStore(bucket)
    store.put("a", b"0123456789")
    store.put("empty", b"")

    def unexpected(*_: object) -> None:
        raise AssertionError("a request more")

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "status", unexpected)
        with ObjectReader(ObjectUrl.parse(f"{bucket}/a")) as stream:
            assert stream.read() == b"0123456789"
    with ObjectReader(ObjectUrl.parse(f"{bucket}/empty")) as stream:
        assert (stream.read(), stream.status.size) == (b"", 0)
    with pytest.raises(ObjectNotFoundError):
        ObjectReader(ObjectUrl.parse(f"{bucket}/nosuch"))


def test_an_object_that_is_replaced_while_it_is_read(bucket: str, monkeypatch) -> None:
    monkeypatch.setattr(files, "READ_AHEAD", 4)
    store = ObjectStore(bucket)
    store.put("a", b"0123456789")
    with ObjectReader(ObjectUrl.parse(f"{bucket}/a")) as stream:
        assert stream.read(2) == b"01"
        store.put("a", b"abcdefghij")
        assert stream.read(2) == b"23"
        with pytest.raises(StorageConflictError, match="replaced or deleted while it was read"):
            stream.read(2)


def test_what_is_there(bucket: str) -> None:
    store = ObjectStore(bucket)
    for name in ("b/1/binlog.000001", "b/1/binlog.000002", "b/2/binlog.000003", "b/binlog.index"):
        store.put(name, b"x")
    store.put("b", b"beside")

    def found(text: str) -> list[str]:
        return sorted(str(one.where) for one in matching_files(location(text)))

    assert found(f"{bucket}/b/1/binlog.*") == [f"{bucket}/b/1/binlog.00000{n}" for n in (1, 2)]
    assert found(f"{bucket}/b/*/binlog.00000[13]") == [
        f"{bucket}/b/1/binlog.000001",
        f"{bucket}/b/2/binlog.000003",
    ]
    assert found(f"{bucket}/b/?inlog.*") == [f"{bucket}/b/binlog.index"]
    assert found(f"{bucket}/c/*") == []
    listed = files_in(location(f"{bucket}/b/1"))
    assert listed is not None and [one.size for one in listed] == [1, 1]
    assert files_in(location(f"{bucket}/c")) is None
    assert file_or_none(location(f"{bucket}/b/binlog.index"))
    for name in (f"{bucket}/b/1", f"{bucket}/b/1/bin", bucket):
        assert file_or_none(location(name)) is None
    assert {one.name for one in store.objects("b/1")} == {"b/1/binlog.000001", "b/1/binlog.000002"}


def test_errors_are_one_line_without_secrets(bucket: str) -> None:
    cases = [
        (ObjectStore("s3://never-there"), "there is no bucket never-there"),
        (ObjectStore(f"{bucket}-x"), f"there is no bucket {bucket.partition('//')[2]}-x"),
        (ObjectStore("s3://never", {"aws_secret_access_key": SECRET}), "there is no bucket never"),
    ]
    for store, words in cases:
        with pytest.raises(StorageError, match=words) as caught:
            store.get("a")
        text = str(caught.value)
        assert "\n" not in text and SECRET not in text and "AKIA" not in text
        assert SECRET not in repr(store)
    with pytest.raises(ConfigError, match="Configuration key: 'no_such_option' is not valid"):
        ObjectStore(bucket, {"no_such_option": "1"})


_ANSWER = (
    "Generic S3 error: Error performing GET http://host/b/a?X-Amz-Signature=abcdef in 1ms - Server returned "
    "non-2xx status code: 403 Forbidden: <?xml version='1.0'?><Error><Code>SignatureDoesNotMatch</Code>"
    "<Message>The signature does not match.</Message><AWSAccessKeyId>AKIATESTS</AWSAccessKeyId>"
    "<StringToSign>AWS4-HMAC</StringToSign></Error>\n\nDebug source:\nGeneric"
)


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        (_ANSWER, "403 Forbidden, SignatureDoesNotMatch (The signature does not match.)"),
        (
            "Error performing PUT http://169.254.169.254/latest: timed out",
            "no credentials; set AWS_",
        ),
        (
            "Error performing PUT http://u:pw@host/b/a?sig=abcdef: error sending",
            "PUT http://host/b/a",
        ),
        (f"the key {SECRET} is wrong\nDebug", "the key … is wrong"),
    ],
)
def test_what_stores_answer(text: str, stated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    error = storage_error("read", ObjectUrl.parse("s3://bucket/a"), RuntimeError(text))
    assert str(error).startswith("cannot read s3://bucket/a: ") and stated in str(error)
    for secret in (SECRET, "abcdef", "AKIA", "pw@", "\n"):
        assert secret not in str(error)
