"""Fixtures for tests against real servers; loaded by `pytest_plugins` in tests/conftest.py.

How a test gets a server:

    def test_a(any_server): ...                    # runs once per local server: four times
    def test_b(server):                            # a local server by name, shared by the session
        mysql = server("mysql-9.7")
    def test_c(fresh_server):                      # one of its own, gone after the test
        mysql = fresh_server("mysql-9.7", ["gtid-mode=OFF", "max-binlog-size=4096"])
    def test_d(any_container): ...                 # runs once per flavour, in a container
    def test_e(container_server):                  # a container by flavour, shared by the session
        mariadb = container_server("mariadb")
    def test_f(any_server, new_database):          # a database that is dropped after the test
        name = new_database(any_server)

A server has `host port flavor version user password name`, `url()`, `execute(sql, args)`,
`query(sql)`, `connect(user)`, `connected(user)`, `binlog_files()`, `binlog_position()`, `rotate()`;
a local one also `datadir`, `socket`, `pid`, `binlog_path(name)`, `restart()`, `kill()`,
`suspend()`, `resume()`. Shared servers are for reading, and for writing to databases of one's own:
whoever restarts, kills or reconfigures takes a fresh one.

A server that cannot be had skips the test and says why; where the variable CI is set it fails it.
Containers are of the official images unless `--mysql-image` and `--mariadb-image`, or the variables
REPLICA_CLIENT_TEST_MYSQL_IMAGE and REPLICA_CLIENT_TEST_MARIADB_IMAGE, name others; `local` means
the images that `scripts/servers images` builds.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import pymysql
import pytest

from tests.servers.containers import OFFICIAL_IMAGES, ContainerServer, ContainerServers
from tests.servers.local import NAMES, LocalServer, LocalServers, ServerUnavailableError
from tests.servers.server import Server

CONTAINER_TEST_TIMEOUT = 900
_CONTAINER_FIXTURES = {"container_server", "any_container"}
_SERVER_FIXTURES = {"local_servers", "server", "any_server", "fresh_server"} | _CONTAINER_FIXTURES


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("servers", "real servers")
    group.addoption(
        "--keep-servers",
        action="store_true",
        help="let the session's shared local servers run on: scripts/servers status, and stop",
    )
    for flavor, official in OFFICIAL_IMAGES.items():
        group.addoption(
            f"--{flavor}-image",
            default=os.environ.get(f"REPLICA_CLIENT_TEST_{flavor.upper()}_IMAGE") or official,
            help=f"image for tests in {flavor} containers, or `local` (default: {official})",
        )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests on real servers, and gives those on containers the time to get an image."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & _SERVER_FIXTURES:
            item.add_marker(pytest.mark.integration)
        if fixtures & _CONTAINER_FIXTURES and config.pluginmanager.hasplugin("timeout"):
            item.add_marker(pytest.mark.timeout(CONTAINER_TEST_TIMEOUT), append=False)


def in_ci() -> bool:
    """Whether these are CI's tests, where nothing may be missing."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def unavailable(reason: object) -> NoReturn:
    """Skips the test, or fails it in CI, where everything should be there."""
    if in_ci():
        pytest.fail(f"CI should have it: {reason}", pytrace=False)
    pytest.skip(str(reason))


@pytest.fixture(scope="session")
def local_servers(request: pytest.FixtureRequest) -> Iterator[LocalServers]:
    """The session's local servers, stopped at its end unless they are to be kept."""
    servers = LocalServers(keep=request.config.getoption("--keep-servers"))
    try:
        yield servers
    finally:
        servers.close()


@pytest.fixture(autouse=True)
def _sessions_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the shared servers' root sessions after each test: `SET SESSION` of one must not reach the next."""
    servers: LocalServers | None = None
    if "local_servers" in request.fixturenames:
        servers = request.getfixturevalue("local_servers")
    yield
    if servers is not None:
        servers.disconnect()


@pytest.fixture(scope="session")
def server(local_servers: LocalServers) -> Callable[[str], LocalServer]:
    """`server(name)`: the session's local server of that name."""

    def shared(name: str) -> LocalServer:
        try:
            return local_servers.shared(name)
        except ServerUnavailableError as error:
            unavailable(error)

    return shared


@pytest.fixture(params=NAMES)
def any_server(request: pytest.FixtureRequest, server: Callable[[str], LocalServer]) -> LocalServer:
    """Each local server in turn."""
    return server(request.param)


@pytest.fixture
def fresh_server(
    local_servers: LocalServers,
) -> Iterator[Callable[..., LocalServer]]:
    """`fresh_server(name, options=())`: a server of the test's own, stopped after it."""
    mine: list[LocalServer] = []

    def fresh(name: str, options: Sequence[str] = ()) -> LocalServer:
        try:
            mine.append(local_servers.fresh(name, options))
        except ServerUnavailableError as error:
            unavailable(error)
        return mine[-1]

    yield fresh
    for one in mine:
        local_servers.close_fresh(one)


@pytest.fixture(scope="session")
def container_server(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[str], ContainerServer]]:
    """`container_server(flavor)`: the session's container of `mysql` or `mariadb`."""
    images = {flavor: request.config.getoption(f"--{flavor}-image") for flavor in OFFICIAL_IMAGES}
    containers = ContainerServers(images)

    def shared(flavor: str) -> ContainerServer:
        try:
            return containers.shared(flavor)
        except ServerUnavailableError as error:
            unavailable(error)

    try:
        yield shared
    finally:
        containers.close()


@pytest.fixture(params=tuple(OFFICIAL_IMAGES))
def any_container(
    request: pytest.FixtureRequest, container_server: Callable[[str], ContainerServer]
) -> ContainerServer:
    """A container of each flavour in turn."""
    return container_server(request.param)


@pytest.fixture
def new_database(request: pytest.FixtureRequest) -> Iterator[Callable[[Server], str]]:
    """`new_database(server)`: a database named after the test, dropped when it ends."""
    made: list[tuple[Server, str]] = []

    def create(server: Server) -> str:
        name = server.create_database(request.node.originalname or request.node.name)
        made.append((server, name))
        return name

    yield create
    for server, name in made:
        # A server that the test ended took the database with it.
        with contextlib.suppress(pymysql.err.OperationalError):
            server.drop_database(name)
