"""An S3 that tests share: moto's server, one for all tests of a process."""

import itertools
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SECRET = "s3cret/of+the=tests"
"""The secret key that is given to the store; it must never be shown."""

_numbers = itertools.count(1)


@contextmanager
def object_store() -> Iterator[str]:
    """The server in a process of its own; gives its address."""
    program = Path(__file__).with_name("object_store_server.py")
    server = subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.stdin.close()
        server.wait(30)
        server.stdout.close()


def access_to(endpoint: str) -> dict[str, str]:
    """The environment that leads to the server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "AKIATESTS",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


def new_bucket(endpoint: str, kind: str = "sound") -> str:
    """Makes an empty bucket and gives its URL; the kind is of :mod:`tests.object_store_server`."""
    name = f"{kind}-{os.getpid()}-{next(_numbers)}"
    request = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    urllib.request.urlopen(request).close()
    return f"s3://{name}"


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """Address of the server."""
    pytest.importorskip("moto", reason="needs moto's server (the extra test)")
    pytest.importorskip("obstore", reason="needs obstore (the extra storage)")
    with object_store() as endpoint:
        yield endpoint


@pytest.fixture
def s3_environment(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment that leads to the server; gives its address."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in access_to(s3_endpoint).items():
        monkeypatch.setenv(name, value)
    return s3_endpoint


@pytest.fixture
def make_bucket(s3_environment: str) -> Callable[..., str]:
    """Makes empty buckets."""
    return lambda kind="sound": new_bucket(s3_environment, kind)


@pytest.fixture
def bucket(make_bucket: Callable[..., str]) -> str:
    """URL of an empty bucket."""
    return make_bucket()
