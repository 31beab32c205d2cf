"""Servers in containers, through testcontainers."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any, cast

import pymysql

from tests.servers.local import ServerUnavailableError, process_start, run_script
from tests.servers.server import Address, Server

OFFICIAL_IMAGES = {"mysql": "mysql:8.4", "mariadb": "mariadb:11.8"}
LOCAL_IMAGES = {
    "mysql": ("mysql-9.7", "replica-client-test/mysql:9.7"),
    "mariadb": ("mariadb-11.8", "replica-client-test/mariadb:11.8"),
}
ACCOUNTS = Path(__file__).parents[2] / "scripts" / "build" / "container-accounts.sql"
OWNER_LABEL = "replica-client-test.owner"
ROOT_PASSWORD = "root-secret"
START_TIMEOUT = 180

_OPTIONS = {
    "mysql": ("--gtid-mode=ON", "--enforce-gtid-consistency=ON"),
    "mariadb": ("--binlog-format=ROW",),
}


class ContainerServer(Server):
    """A server in a container, reached over a port published on 127.0.0.1."""

    def __init__(self, flavor: str, image: str) -> None:
        """Starts the image of a flavour; `local` is what `scripts/servers images` builds."""
        if image == "local":
            name, image = LOCAL_IMAGES[flavor]
            run_script("images", name)
        self._container = _start(flavor, image)
        try:
            address = Address(
                name=image,
                flavor=flavor,
                version_text="0.0.0",
                host="127.0.0.1",
                port=self._container.get_exposed_port(3306),
                root_password=ROOT_PASSWORD,
            )
            super().__init__(address)
            self._wait_until_up()
        except BaseException:
            self._container.stop()
            raise

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                # The replica's account is what the start-up makes last.
                with self.connected("repl") as connection:
                    version = connection.get_server_info()
                break
            except pymysql.err.OperationalError as error:
                if time.monotonic() > deadline or self._has_exited():
                    said = b"".join(self._container.get_logs()).decode(errors="replace")
                    last = (said.strip().splitlines() or ["nothing"])[-1]
                    raise ServerUnavailableError(
                        f"a container of {self.name} does not answer: {error}; it said: {last}"
                    ) from None
                time.sleep(0.2)
        address = self.address
        self.address = Address(
            name=address.name,
            flavor=address.flavor,
            version_text=version,
            host=address.host,
            port=address.port,
            root_password=address.root_password,
        )

    def _has_exited(self) -> bool:
        wrapped = self._container.get_wrapped_container()
        wrapped.reload()
        return str(wrapped.status) in ("exited", "dead")

    def close(self) -> None:
        """Removes the container and its data."""
        self.disconnect()
        self._container.stop()


def _start(flavor: str, image: str) -> Any:
    try:
        import docker.errors  # type: ignore[import-untyped]
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.exceptions import ContainerStartException
    except ImportError as error:
        raise ServerUnavailableError(f"testcontainers is not installed: {error}") from None
    # What a killed session left is removed here: testcontainers' own cleaner is an image to pull.
    testcontainers_config.ryuk_disabled = True
    try:
        container = DockerContainer(image)
        _remove_orphans(container.get_docker_client().client)
        container.with_kwargs(labels={OWNER_LABEL: f"{os.getpid()} {process_start(os.getpid())}"})
        container.with_env("MYSQL_ROOT_PASSWORD", ROOT_PASSWORD)
        container.with_env("MARIADB_ROOT_PASSWORD", ROOT_PASSWORD)
        container.with_command(["--log-bin=binlog", "--server-id=1", *_OPTIONS[flavor]])
        container.with_volume_mapping(
            str(ACCOUNTS), "/docker-entrypoint-initdb.d/accounts.sql", "ro"
        )
        # A tuple of an address alone is a free port on that address.
        ports = cast("dict[str, Any]", container.ports)
        ports["3306/tcp"] = ("127.0.0.1",)
        return container.start()
    except (docker.errors.DockerException, ContainerStartException) as error:
        text = str(error).splitlines()[0]
        raise ServerUnavailableError(f"Docker cannot start {image}: {text}") from None


def _remove_orphans(client: Any) -> None:
    import docker.errors

    for container in client.containers.list(all=True, filters={"label": OWNER_LABEL}):
        pid, _, start = container.labels[OWNER_LABEL].partition(" ")
        if process_start(int(pid)) != start:
            with contextlib.suppress(docker.errors.APIError):
                container.remove(force=True, v=True)


class ContainerServers:
    """The containers of one test session, one per flavour."""

    def __init__(self, images: dict[str, str]) -> None:
        self._images = images
        self._running: dict[str, ContainerServer | ServerUnavailableError] = {}

    def shared(self, flavor: str) -> ContainerServer:
        """The session's container of that flavour, started when it is first asked for."""
        if flavor not in self._running:
            try:
                self._running[flavor] = ContainerServer(flavor, self._images[flavor])
            except ServerUnavailableError as error:
                self._running[flavor] = error
        found = self._running[flavor]
        if isinstance(found, ServerUnavailableError):
            raise found
        return found

    def close(self) -> None:
        """Removes all of them."""
        for server in self._running.values():
            if isinstance(server, ContainerServer):
                server.close()
        self._running.clear()
