"""The first packet that a server sends: enough to know that it is up, and which version it is."""

import socket


def server_version(host: str, port: int, *, timeout: float) -> str | None:
    """The version text of the server that listens there; None when none answers with a greeting."""
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.settimeout(timeout)
            packet = _exactly(connection, 4)
            body = _exactly(connection, int.from_bytes(packet[:3], "little"))
    except OSError:
        return None
    if not body or body[0] != 10:
        return None
    text = body[1 : body.index(0, 1)].decode("ascii", errors="replace")
    # MariaDB before 11 hides behind an old version number, for the sake of old replicas.
    return text.removeprefix("5.5.5-")


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the server hung up during its greeting")
        data += part
    return data


def free_port() -> int:
    """A TCP port on loopback that nothing listened on a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
