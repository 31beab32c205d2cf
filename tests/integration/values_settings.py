"""Random settings of a server that change how rows are logged."""

from collections.abc import Callable
from typing import Any

from tests.integration.values_kinds import Draws
from tests.servers.server import Server

# Statements are split into several row events.
_OPTIONS = ("binlog-row-event-max-size=1024",)


def own_server_options(name: str) -> tuple[str, ...]:
    """What a local server is started with to be compared with."""
    if name == "mysql-5.6":
        return (*_OPTIONS, "innodb-file-format=Barracuda", "innodb-file-per-table=ON")
    return _OPTIONS


class Settings:
    """The settings of one comparison: those of the session, and global ones of an own server."""

    def __init__(
        self, server: Server, draws: Draws, execute: Callable[[str], None], own: bool
    ) -> None:
        self.image = "FULL"
        self.partial_json = False
        self._own = own
        self._server = server
        self._draws = draws
        self._execute = execute
        self._mysql = server.flavor == "mysql"
        self._session: dict[str, str] = {}
        self._global: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        """What is set now."""
        return [*self._global.values(), *self._session.values()]

    def choose(self) -> None:
        """New settings."""
        self._choose_globals()
        self.choose_of_session()

    def choose_of_session(self) -> None:
        """New settings of the session alone."""
        version = self._server.version
        images = ["FULL", "MINIMAL", "NOBLOB"]
        if not self._mysql and version >= (11, 4):
            images.append("FULL_NODUP")
        self.image = self._draws.card("setting: images", images)
        self._execute(f"SET SESSION binlog_row_image = {self.image}")
        self._session["image"] = f"image {self.image}"
        if not self._mysql:
            value = self._draws.card("setting: annotations", ("ON", "OFF"))
            self._execute(f"SET SESSION binlog_annotate_row_events = {value}")
            return
        value = self._draws.card("setting: queries", ("ON", "OFF"))
        self._execute(f"SET SESSION binlog_rows_query_log_events = {value}")
        if version >= (8, 0, 3):
            self.partial_json = self._draws.card("setting: partial JSON", (True, True, False))
            value = "PARTIAL_JSON" if self.partial_json else ""
            self._execute(f"SET SESSION binlog_row_value_options = '{value}'")
            self._session["json"] = f"partial JSON {'ON' if self.partial_json else 'OFF'}"
        if version >= (8, 0, 20):
            value = self._draws.card("setting: compression", ("ON", "OFF"))
            self._execute(f"SET SESSION binlog_transaction_compression = {value}")
            level = self._draws.card("setting: levels", (1, 3, 19))
            self._execute(f"SET SESSION binlog_transaction_compression_level_zstd = {level}")
            self._session["compression"] = f"compression {value}"

    def _choose_globals(self) -> None:
        if not self._own:
            return
        checksum = self._draws.card("setting: checksums", ("NONE", "CRC32"))
        if self._global.get("checksum") != f"checksum {checksum}":
            self._set("binlog_checksum", checksum)
            self._global["checksum"] = f"checksum {checksum}"
        if self._mysql:
            if self._server.version >= (8, 0, 1):
                value = self._draws.card("setting: metadata", ("FULL", "MINIMAL"))
                self._set("binlog_row_metadata", value)
                self._global["metadata"] = f"metadata {value}"
            return
        value = self._draws.card("setting: metadata", ("FULL", "MINIMAL", "NO_LOG"))
        self._set("binlog_row_metadata", value)
        self._global["metadata"] = f"metadata {value}"
        value = self._draws.card("setting: MariaDB compression", ("ON", "OFF"))
        self._set("log_bin_compress", value)
        self._set(
            "log_bin_compress_min_len", self._draws.card("setting: compression sizes", (10, 256))
        )
        self._global["compression"] = f"compression {value}"
        value = self._draws.card("setting: temporals", ("ON", "ON", "OFF"))
        self._set("mysql56_temporal_format", value)
        self._global["temporals"] = (
            f"temporals of {'MySQL 5.6' if value == 'ON' else 'MariaDB 5.3'}"
        )

    def _set(self, name: str, value: Any) -> None:
        self._server.execute(f"SET GLOBAL {name} = {value}")

    def restore(self) -> None:
        """What the fixtures began with."""
        if self._own and self._global:
            self._set("binlog_checksum", "CRC32")
