"""A bad UPDATE on a live table is taken back while others write: each price is right, each other write is kept."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pymysql

from tests import processes
from tests.integration.as_of_instants import url_of
from tests.servers.local import LocalServer

ROWS = 5000
BAD = 500


class Shop(threading.Thread):
    """A writer that remembers what each row of the table should be."""

    def __init__(self, server: LocalServer, table: str, seed: int, rate: float) -> None:
        super().__init__()
        self.rng, self.rate, self.table = random.Random(seed), rate, table
        self.connection = server.connect()
        self.stock = dict.fromkeys(range(ROWS), 1000)
        self.prices: dict[int, int] = {}
        self.sets_prices = False
        self.writes = 0
        self.stop = threading.Event()

    def run(self) -> None:
        with self.connection.cursor() as cursor:
            begun = time.monotonic()
            while not self.stop.is_set():
                row = self.rng.randrange(ROWS if self.rng.random() < 0.5 else BAD)
                if self.sets_prices and self.rng.random() < 0.01 and row < BAD:
                    price = self.rng.randrange(10_000, 20_000)
                    sql = f"UPDATE {self.table} SET price = {price} WHERE id = {row}"
                    self._write(cursor, sql)
                    self.prices[row] = price
                else:
                    sql = f"UPDATE {self.table} SET stock = stock - 1 WHERE id = {row}"
                    self._write(cursor, sql)
                    self.stock[row] -= 1
                self.writes += 1
                ahead = begun + self.writes / self.rate - time.monotonic()
                if ahead > 0:
                    time.sleep(ahead)

    def _write(self, cursor: pymysql.cursors.Cursor, sql: str) -> None:
        while True:
            try:
                cursor.execute(sql)
                self.connection.commit()
                return
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (1205, 1213):
                    raise
                self.connection.rollback()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``replica-client`` with arguments."""
    return processes.run(
        [sys.executable, "-m", "replica_client", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )


def prove(
    server: LocalServer, directory: Path, seed: int, *, seconds: float = 4.0, rate: float = 200.0
) -> Counter[str]:
    """One bad UPDATE, taken back."""
    database = server.create_database("live")
    table, url = f"{database}.o", url_of(server)
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, price INT, stock INT) ENGINE=InnoDB"
        )
        rows = ", ".join(f"({n}, {n + 1}, 1000)" for n in range(ROWS))
        cursor.execute(f"INSERT INTO {table} VALUES {rows}")
        connection.commit()
        shop = Shop(server, table, seed, rate)
        begun = time.monotonic()
        shop.start()
        try:
            time.sleep(seconds / 2)
            thread = connection.thread_id()
            cursor.execute(f"UPDATE {table} SET price = 0 WHERE id < {BAD}")
            connection.commit()
            shop.sets_prices = True
            time.sleep(seconds)
            shop.sets_prices = False
            time.sleep(0.5)
            copied = command("backup", url, str(directory), "--stop-at-end")
            assert copied.returncode == 0, copied.stderr
            which = ["--table", table, "--where", "price = 0", "--column", "price"]
            find = command("find", str(directory), *which, "--to", "0", "--json", "--limit", "1")
            gtid = re.search(r'"gtid": ?"([^"]+)"', find.stdout)
            assert gtid, find
            asked = ["undo", str(directory), "--table", table, "--gtid", gtid[1], "--apply", url]
            dry = command(*asked)
            assert dry.returncode == (1 if shop.prices else 0), dry
            begun_undo = time.monotonic()
            done = command(*asked, "--skip-changed", "--no-dry-run")
            took = time.monotonic() - begun_undo
            assert done.returncode == 0, done
            time.sleep(seconds / 4)
        finally:
            shop.stop.set()
            shop.join()
            shop.connection.close()
        lasted = time.monotonic() - begun
        connection.rollback()
        cursor.execute(f"SELECT id, price, stock FROM {table}")
        wrong_prices = wrong_stocks = 0
        for row, price, stock in cursor.fetchall():
            wrong_prices += price != shop.prices.get(row, row + 1)
            wrong_stocks += stock != shop.stock[row]
    listed = re.findall(r"^changed: \S+ where `id` = (\d+): .*", done.stdout, re.MULTILINE)
    assert set(map(int, listed)) == set(shop.prices), (listed, shop.prices, done.stdout)
    unnamed = sum("by no change" in line for line in done.stdout.splitlines())
    print(
        f"{server.name}, seed {seed}: {shop.writes} other writes ({shop.writes / lasted:.0f} a second), "
        f"{BAD - len(shop.prices)} of {BAD} prices taken back in {took:.1f} s, {len(listed)} touched rows listed "
        f"({unnamed} without who), thread {thread}: {wrong_prices} wrong prices, {wrong_stocks} other writes lost",
        flush=True,
    )
    found = Counter(undone=1, wrong=wrong_prices + wrong_stocks, unnamed=unnamed)
    if not found["wrong"]:
        server.drop_database(database)
    return found
