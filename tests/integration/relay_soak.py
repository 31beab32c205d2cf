"""One source under a mixed load, relays, and several replicas of different kinds at once."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.relay_answers import assert_same_answers
from tests.integration.relay_load import DATABASES, TOLD, MixedLoad
from tests.integration.relays import (
    RelayProcess,
    assert_same_files,
    begin_replica,
    options,
    replica_status,
    wait_until_equal,
)
from tests.integration.values_generator import makers
from tests.servers.local import LocalServer, LocalServers

_LOOK_SECONDS = 240.0
_COLLATION = re.compile(r"(CHARACTER SET (\w+)) COLLATE (\w+)")
_AUTO_INCREMENT = re.compile(r" AUTO_INCREMENT=\d+")


def _options(name: str, server_id: int) -> list[str]:
    given = [*options(name, server_id), "sync-binlog=0", "innodb-flush-log-at-trx-commit=0"]
    if name == "mysql-5.6":
        given += ["innodb-file-format=Barracuda", "innodb-file-per-table=ON"]
    if name != "mysql-9.7":
        given.append("binlog-format=ROW")
    return given


class Soak:
    """One run.

    Args:
        servers: gives the servers.
        directory: for the relays.
        name: of the kind of server.
        seed: of the load, and of what is stopped and started.
        tell: takes a line about progress.
    """

    def __init__(
        self,
        servers: LocalServers,
        directory: Path,
        name: str,
        seed: int,
        tell: Callable[[str], None],
    ) -> None:
        self.name = name
        self._servers = servers
        self._tell = tell
        self._rng = random.Random(f"{name} {seed}")
        self._seed = seed
        self._own: list[LocalServer] = []
        self._relays: list[RelayProcess] = []
        self.replicas: dict[str, LocalServer] = {}
        self.source = self._server(11)
        self._build(directory)

    def _server(self, server_id: int) -> LocalServer:
        server = self._servers.fresh(self.name, _options(self.name, server_id))
        self._own.append(server)
        return server

    def _relay(self, directory: Path, url: str, query: str = "") -> RelayProcess:
        plugin = "caching_sha2_password" if self.name == "mysql-9.7" else "mysql_native_password"
        relay = RelayProcess(directory, [url], plugin=plugin)
        if query:
            text = relay.config.read_text()
            at = url.rpartition("@")[2].rstrip("/")
            relay.config.write_text(text.replace(f"{at}/", f"{at}/?{query}"))
        relay.start()
        self._relays.append(relay)
        relay.wait()
        return relay

    def _build(self, directory: Path) -> None:
        first = str(self.source.query("SHOW BINARY LOGS")[0][0])
        relay = self._relay(directory / "first", self.source.url())
        query = "tls=disabled&allow_public_key_retrieval=true"
        second = self._relay(directory / "second", relay.url, query)
        wanted = {
            "by GTID": (relay, True),
            "by file": (relay, False),
            "by GTID through two relays": (second, True),
        }
        for number, (what, (upstream, gtid)) in enumerate(wanted.items()):
            replica = self._server(21 + number)
            begin_replica(replica, upstream.port, gtid=gtid, first_file=first)
            self.replicas[what] = replica

    def close(self) -> None:
        """End everything."""
        for relay in self._relays:
            relay.kill()
        for server in self._own:
            self._servers.close_fresh(server)

    def run(self, seconds: float, rate: float) -> None:
        """Write, and compare now and then.

        Raises:
            AssertionError: a replica, or a relay's file, is not as the source.
        """
        begun = looked = time.monotonic()
        load = MixedLoad(self.source, self._seed)
        steps = 0
        while time.monotonic() - begun < seconds:
            load.step()
            steps += 1
            time.sleep(self._rng.uniform(0, 2) / rate)
            if self._rng.random() < 0.004:
                self._disturb()
            if time.monotonic() - looked > _LOOK_SECONDS:
                looked = time.monotonic()
                self._look(f"{(looked - begun) / 60:.0f} min, {steps} steps")
        load.close()
        self._look(f"{(time.monotonic() - begun) / 60:.1f} min, {steps} steps, at the end")
        wanted = set(makers(self.source.flavor, self.source.version))
        stated = ", ".join(f"{load.counts[name]} {name}" for name in TOLD)
        missing = ", ".join(sorted(wanted - load.counts.keys())) or "none"
        self._tell(f"{self.name}: {stated}; {len(wanted)} column types, missing: {missing}")

    def _disturb(self) -> None:
        """Stop and start a replica, or restart a relay."""
        what = self._rng.choice([*self.replicas, "relay"])
        if what == "relay":
            relay = self._rng.choice(self._relays)
            relay.stop()
            relay.start()
            relay.wait()
        else:
            replica = self.replicas[what]
            new = self.name == "mysql-9.7"
            replica.execute("STOP REPLICA" if new else "STOP SLAVE")
            time.sleep(1)
            replica.execute("START REPLICA" if new else "START SLAVE")
        self._tell(f"{self.name}: {what} was stopped and started")

    def _look(self, when: str) -> None:
        count = 0
        for what, replica in self.replicas.items():
            try:
                wait_until_equal(self.source, replica, DATABASES, 400)
            except AssertionError as error:
                log = [
                    line for line in replica.error_log.read_text().splitlines() if "ERROR" in line
                ]
                raise AssertionError(f"{what}: {error}\n{log[-5:]}") from None
            count = self._same_definitions(what, replica)
            status = replica_status(replica)
            errors = {
                key: value
                for key, value in status.items()
                if "Error" in key and value not in (0, "")
            }
            errors = {key: value for key, value in errors.items() if "Timestamp" not in key}
            assert not errors, (what, errors)
        for relay in self._relays:
            assert_same_files(relay, self.source)
            assert "Traceback" not in relay.log.read_text()
            assert_same_answers(relay, self.source)
        size = sum(map(len, self._relays[0].files().values()))
        self._tell(
            f"{self.name}: {when}: {count} tables of {len(self.replicas)} replicas equal, "
            f"{len(self._relays)} relays' files ({size >> 20} MiB) equal"
        )

    def _same_definitions(self, what: str, replica: LocalServer) -> int:
        count = 0
        defaults = {(str(row[0]), str(row[2])) for row in self.source.query("SHOW CHARACTER SET")}
        for database in DATABASES:
            for (table,) in self.source.query(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s "
                "AND table_type = 'BASE TABLE'",
                (database,),
            ):
                quoted = str(table).replace("`", "``")
                sql = f"SHOW CREATE TABLE `{database}`.`{quoted}`"
                ours, theirs = (
                    without_defaults(str(server.query(sql)[0][1]), defaults)
                    for server in (self.source, replica)
                )
                assert ours == theirs, (what, ours, theirs)
                count += 1
        return count


def without_defaults(text: str, defaults: set[tuple[str, str]]) -> str:
    """A definition without its counter and collations that are their character sets' own.

    A MySQL logs CREATE TABLE … SELECT with them, and its replica shows them.
    """

    def shorter(match: re.Match[str]) -> str:
        return match[1] if (match[2], match[3]) in defaults else match[0]

    return _COLLATION.sub(shorter, _AUTO_INCREMENT.sub("", text))
