"""One connection of a server: greeting, login, commands, dump."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from replica_client.errors import ProtocolError, ReplicaClientError, ServerError
from replica_client.protocol.constants.client_server import Capability, Command, ServerFlavor
from replica_client.protocol.wire.auth.server import (
    DIALOG_QUESTION,
    LONG_SCRAMBLE_PLUGINS,
    SWITCHED_PLUGINS,
    ServerLogin,
    is_final,
)
from replica_client.protocol.wire.connection_phase import (
    SERVER_CAPABILITIES,
    HandshakeResponse,
    HandshakeV10,
    SslRequest,
)
from replica_client.protocol.wire.dump_commands import ComQuery, ComRegisterSlave, SemiSyncAck
from replica_client.protocol.wire.framing import MAX_PIECE_SIZE
from replica_client.protocol.wire.packets import (
    FRAME_HEADER_SIZE,
    AuthSwitchRequest,
    Compression,
    EofPacket,
    ErrPacket,
    FrameDecoder,
    OkPacket,
)
from replica_client.protocol.wire.resultset import encode_result, encode_row
from replica_client.server.accounts import peer_of
from replica_client.server.budget import LOGIN_SECONDS, SessionBudget
from replica_client.server.dump_start import DumpOrder, read_request
from replica_client.server.packet_output import CHUNK_SIZE, Output
from replica_client.server.sender import DumpSender
from replica_client.server.show_events import LIKE_ROW
from replica_client.server.understood_sql import Rows, RowStream, SqlSession, no_database
from replica_client.stream.transport.tls import start_tls_late

if TYPE_CHECKING:
    from replica_client.server.binlog_server import BinlogServer

_LOG = logging.getLogger("replica_client.server")

MAX_LOGIN_SIZE: Final = 64 << 10
"""Bytes of a packet before the client is known; connection attributes are the largest part."""
_LONGEST_USER: Final = 128
_READ_SIZE: Final = 64 << 10
_GTID_FACTOR: Final = 8
"""Bytes of memory for each byte of a GTID set's text."""

_SSL_REQUEST_SIZE = 32


class ServerSession:
    """One client's connection.

    Attributes:
        connection_id: as the client sees it.
        user: the account that logged in; empty before.
        sender: of the running dump; None before.
        replica: the client's registration as a replica; None before.
        replica_uuid: @slave_uuid at the dump; empty before.
        since: when the connection was made, by the event loop's clock.
        refused: whether its login was refused and the answer is delayed.
        doing: the current command, for SHOW PROCESSLIST.
    """

    def __init__(
        self,
        source: BinlogServer,
        connection_id: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        output: Output | None = None,
    ) -> None:
        self.connection_id = connection_id
        self.user = ""
        self.sender: DumpSender | None = None
        self.replica: ComRegisterSlave | None = None
        self.replica_uuid = ""
        self.dump_server_id = 0
        self.evicted: ServerError | None = None
        self.since = asyncio.get_running_loop().time()
        self.refused = False
        self.doing = "Connect"
        self._source = source
        self._reader = reader
        self._writer = writer
        # Read now: a closed TLS transport no longer knows its peer.
        self._peer_name = writer.get_extra_info("peername")
        self._output = output or Output(writer, source.limits.write_timeout)
        self._sql: SqlSession | None = None
        self._budget: SessionBudget | None = None
        self._dump: asyncio.Task[None] | None = None
        self._frames: FrameDecoder | None = None
        self._plain = bytearray()

    async def run(self) -> None:
        """Serve the client until it leaves or breaks the protocol."""
        try:
            async with asyncio.timeout(self._source.limits.login_timeout):
                known = await self._login()
            if known:
                try:
                    await self._commands()
                except ProtocolError as error:
                    if self._dump is None:
                        text = f"Malformed communication packet: {error}"
                        await self._fail(ServerError(1835, "HY000", text))
        except (ConnectionError, asyncio.IncompleteReadError, ProtocolError, TimeoutError):
            pass
        finally:
            try:
                await self._stop()
            finally:
                if self._budget is not None:
                    self._budget.release_all()

    def evict(self, error: ServerError) -> None:
        """End this session's dump, as a source does when the same replica connects again."""
        self.evicted = error
        if self._dump is not None:
            self._dump.cancel()

    async def _stop(self) -> None:
        if self._dump is not None:
            self._dump.cancel()
            [result] = await asyncio.gather(self._dump, return_exceptions=True)
            if isinstance(result, Exception):
                raise result
        self._writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()
        except asyncio.CancelledError:
            self._writer.transport.abort()
            raise

    # Packets.

    async def _read(self) -> bytes:
        """Return the next packet; take its bytes out of the session's budget, twice."""
        limits, out = self._source.limits, bytearray()
        most = limits.command_size if self.user else MAX_LOGIN_SIZE
        while True:
            header = await self._exactly(4)
            size = int.from_bytes(header[:3], "little")
            if len(out) + size > most:
                raise ProtocolError("command too large")
            async with asyncio.timeout(limits.command_timeout):
                await self._fill(out, size, self._exactly)
            if self._budget is not None:
                self._budget.hold(size)  # for the copy that is decoded
            self._output.sequence = (header[3] + 1) & 0xFF
            if size < MAX_PIECE_SIZE:
                return bytes(out)

    async def _fill(
        self, out: bytearray, size: int, read: Callable[[int], Awaitable[bytes]]
    ) -> None:
        """Read bytes in pieces; take each out of the budget when it came."""
        end = len(out) + size
        while len(out) < end:
            piece = await read(min(_READ_SIZE, end - len(out)))
            if self._budget is not None:
                self._budget.hold(len(piece))
            out += piece

    async def _exactly(self, size: int) -> bytes:
        budget = self._budget
        if self._frames is None or budget is None:
            return await self._reader.readexactly(size)
        while len(self._plain) < size:
            await self._read_frame(self._frames, budget)
        out = bytes(self._plain[:size])
        del self._plain[:size]
        budget.release(size)
        return out

    async def _read_frame(self, frames: FrameDecoder, budget: SessionBudget) -> None:
        """Read one compressed packet; the account pays for each."""
        limits = self._source.limits
        frame = bytearray(await self._reader.readexactly(FRAME_HEADER_SIZE))
        packed, plain = int.from_bytes(frame[:3], "little"), int.from_bytes(frame[4:7], "little")
        if not 0 < max(packed, plain) <= limits.command_size + FRAME_HEADER_SIZE:
            raise ProtocolError("compressed packet empty or too large")
        async with asyncio.timeout(limits.command_timeout):
            await self._fill(frame, packed, self._reader.readexactly)
        budget.hold(plain or packed)
        self._plain += budget.timed(frames.feed, frame)
        budget.release(packed)
        self._output.frame_number = (frame[3] + 1) & 0xFF
        await budget.admit(0)

    async def _send(self, *payloads: bytes) -> None:
        for payload in payloads:
            self._output.packet(payload)
        await self._output.flush()

    async def _fail(self, error: ServerError) -> None:
        await self._send(ErrPacket(error.errno, error.message, error.sqlstate).encode())

    # Login.

    async def _login(self) -> bool:
        source = self._source
        # A NUL inside would end the scramble for some clients.
        scramble = bytes(secrets.choice(range(1, 128)) for _ in range(20))
        capabilities = SERVER_CAPABILITIES
        if source.tls_context is not None:
            capabilities |= Capability.CLIENT_SSL
        version = source.library.server_version
        if source.library.flavor is ServerFlavor.MARIADB:
            version = f"5.5.5-{version}"
        greeting = HandshakeV10(
            version,
            self.connection_id,
            scramble,
            capabilities,
            auth_plugin=(
                "mysql_native_password"
                if source.default_plugin in SWITCHED_PLUGINS
                else source.default_plugin
            ),
        )
        await self._send(greeting.encode())
        payload = await self._read()
        secure = self._over_unix_socket
        if len(payload) == _SSL_REQUEST_SIZE and source.tls_context is not None:
            SslRequest.decode(payload)
            sequence = self._output.sequence
            await start_tls_late(self._reader, self._writer, source.tls_context)
            self._output.sequence = sequence
            secure = True
            payload = await self._read()
        response = HandshakeResponse.decode(payload)
        refusal = source.refusal(self.connection_id, response.user, secure=secure)
        if refusal is None and not await self._authenticate(greeting, response, secure):
            refusal = ServerError(
                1045,
                "28000",
                f"Access denied for user '{response.user[:_LONGEST_USER]}' (using password: "
                f"{'YES' if response.auth_response else 'NO'})",
            )
        if refusal is None:
            refusal = source.too_many(response.user)
        if refusal is not None:
            self.refused = True
            source.login_failed(self.connection_id, response.user, self.peer, refusal)
            await asyncio.sleep(source.limits.refusal_delay)
            await self._fail(refusal)
            return False
        self.user, self.doing = response.user, "Sleep"
        self._budget = SessionBudget(source.budget(self.user), source.limits)
        self._budget.account.charge(LOGIN_SECONDS)
        self._sql = SqlSession(source, self.connection_id, self.user, self._budget, {})
        source.logged_in(self.connection_id, response.user, secure=secure)
        await self._send(OkPacket().encode())
        for algorithm in Compression:
            if response.capabilities & algorithm.capability:
                self._output.compress(algorithm, self._budget.account.turn)
                self._frames = FrameDecoder(algorithm)
                break
        return True

    @property
    def peer(self) -> str:
        """The client's address; empty for a Unix socket."""
        name = self._peer_name
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else ""

    @property
    def network(self) -> str:
        """The unit that counts as one peer: an address or IPv6 network; empty for Unix sockets."""
        name = self._peer_name
        return peer_of(str(name[0])) if isinstance(name, tuple) else ""

    @property
    def replica_key(self) -> tuple[str, str]:
        """The replica that dumps: its account, and its UUID, or its server id without one."""
        return self.user, self.replica_uuid or f"server_id {self.dump_server_id}"

    @property
    def state(self) -> str:
        """The file and position of a running dump, for SHOW PROCESSLIST."""
        sender = self.sender
        if sender is None or sender.file is None:
            return ""
        return f"sending {sender.file.name}:{sender.position}"

    @property
    def _over_unix_socket(self) -> bool:
        sock = self._writer.get_extra_info("socket")
        return sock is not None and sock.family == socket.AF_UNIX

    async def _authenticate(
        self, greeting: HandshakeV10, response: HandshakeResponse, secure: bool
    ) -> bool:
        source = self._source
        account = source.account(response.user)
        plugin = account.plugin
        scramble = greeting.scramble
        data = response.auth_response
        switched = plugin != (response.auth_plugin or "mysql_native_password")
        if switched:
            begin = scramble + b"\0"
            if plugin in LONG_SCRAMBLE_PLUGINS:
                begin = scramble = secrets.token_bytes(32)
            elif plugin == "dialog":
                begin = DIALOG_QUESTION
            await self._send(AuthSwitchRequest(plugin, begin).encode())
            data = await self._read()
        login = ServerLogin(
            plugin,
            account.password,
            scramble,
            secure,
            cached=account.cached,
            private_key=source.rsa_key() if "sha" in plugin else None,
            unix_socket=self._over_unix_socket,
        )
        while True:
            # A stored hash of thousands of rounds, or RSA: not on the loop.
            result = await asyncio.to_thread(login.receive, data)
            if isinstance(result, bool):
                account.cached |= result
                return result and account.exists
            await self._send(result)
            if is_final(result):
                return account.exists
            data = await self._read()

    # Commands.

    async def _commands(self) -> None:
        budget = self._budget
        assert budget is not None
        while True:
            async with asyncio.timeout(None if self._dump else self._source.limits.idle_timeout):
                try:
                    payload = await self._read()
                except ServerError as error:  # too much memory: the rest cannot be read
                    await self._fail(error)
                    return
            await budget.admit(len(payload))
            if self._dump is not None:
                self._while_dumping(payload)
            elif not await self._command(payload):
                return
            budget.release(2 * len(payload))

    async def _command(self, payload: bytes) -> bool:
        """Execute a client's command; return False when the client leaves."""
        command = payload[0] if payload else 0
        if command == Command.COM_QUIT:
            return False
        if command == Command.COM_QUERY:
            await self._query(ComQuery.decode(payload))
        elif command in (Command.COM_PING, Command.COM_RESET_CONNECTION):
            await self._send(OkPacket().encode())
        elif command == Command.COM_INIT_DB:
            await self._fail(no_database(payload[1:].decode("utf-8", "replace")))
        elif command == Command.COM_STATISTICS:
            await self._send(self._source.statistics().encode())
        elif command == Command.COM_PROCESS_KILL and len(payload) >= 5:
            await self._query(ComQuery(b"KILL %d" % int.from_bytes(payload[1:5], "little")))
        elif command == Command.COM_REGISTER_SLAVE:
            self.replica = ComRegisterSlave.decode(payload)
            await self._send(OkPacket().encode())
        elif command in (Command.COM_BINLOG_DUMP, Command.COM_BINLOG_DUMP_GTID):
            await self._begin_dump(payload)
        else:
            await self._fail(ServerError(1047, "08S01", "Unknown command"))
        return True

    async def _begin_dump(self, payload: bytes) -> None:
        assert self._budget is not None
        try:
            # A piece of a file that the client has not taken, and its GTIDs.
            chunks = 2 if self._frames else 1  # with what is being compressed
            self._budget.hold(chunks * CHUNK_SIZE + _GTID_FACTOR * len(payload))
        except ServerError as error:
            await self._fail(error)
            return
        self._output.dumping = True
        self.doing = "Binlog Dump"
        self._dump = asyncio.create_task(self._run_dump(payload))

    def _while_dumping(self, payload: bytes) -> None:
        if payload[:1] == b"\xef":
            ack = SemiSyncAck.decode(payload)
            self._acknowledged(ack.file, ack.position)

    def _acknowledged(self, file: str, position: int) -> None:
        """Handle an acknowledgement of a semi-synchronous client; does nothing here."""

    async def _query(self, query: ComQuery) -> None:
        self._source.questions += 1
        sql_session, budget = self._sql, self._budget
        if sql_session is None or budget is None:
            return
        self.doing = "Query"
        try:
            async with budget.working(self._source.limits.statement_timeout):
                sql = query.sql.decode("utf-8", "replace")
                self._source.statement_came(self, sql)
                result = await budget.metered(sql_session.execute(sql))
            if result is None:
                await self._send(OkPacket().encode())
            elif isinstance(result[1], AsyncGenerator):
                await self._send_stream(result)
            else:
                await self._send_rows(result, budget)
        except ServerError as error:
            await self._fail(error)
        finally:
            self.doing = "Sleep"

    async def _send_rows(self, result: Rows, budget: SessionBudget) -> None:
        payloads = encode_result(*result)
        size = sum(map(len, payloads))
        budget.hold(size)
        try:
            await self._send(*payloads)
        finally:
            budget.release(size)

    async def _send_stream(self, result: RowStream) -> None:
        """Send rows while they are produced: only one piece is in memory."""
        names, pieces = result
        # The types of columns follow from a row.
        await self._send(*encode_result(names, [LIKE_ROW])[: len(names) + 2])
        async with aclosing(pieces):
            async for rows in pieces:
                await self._send(*map(encode_row, rows))
        await self._send(EofPacket().encode())

    # Dump.

    async def _run_dump(self, payload: bytes) -> None:
        try:
            try:
                budget = self._budget
                assert budget is not None
                async with budget.working():
                    order = budget.timed(self._order, payload)
                self._source.dump_begins(self)
                self.sender = self._make_sender(order)
                self.sender.budget = budget
                await self.sender.run()
            except asyncio.CancelledError:
                if self.evicted is None:
                    raise
                await self._fail(self.evicted)
            except ServerError as error:
                await self._fail(error)
            except ReplicaClientError as error:
                # A damaged file: a source reports it with the same number.
                await self._fail(ServerError(1236, "HY000", str(error)))
        except ConnectionError:
            pass
        except OSError as error:
            _LOG.error("connection %d: a dump ended: %s", self.connection_id, error)
            await self._fail(ServerError(1236, "HY000", "the binary log cannot be read"))
        finally:
            # Wakes the command loop; a source closes the connection after a dump.
            self._writer.close()

    def _make_sender(self, order: DumpOrder) -> DumpSender:
        return DumpSender(self._source.library, order, self._output)

    def _order(self, payload: bytes) -> DumpOrder:
        variables = {} if self._sql is None else self._sql.user_variables
        found = read_request(payload, variables, self._source.library.flavor)
        self.replica_uuid, self.dump_server_id = found.replica_uuid, found.server_id
        return replace(found.order, semi_sync=found.order.semi_sync and self._source.semi_sync)
