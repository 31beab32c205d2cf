"""A job for cron: copy what changed since the last run into SQLite, and end.

    */5 * * * *  python sync_job.py mysql://repl:secret@db1/ shop.db

Rows and position are in one database, and each run commits both at once: a killed run is repeated as a whole.
"""

import json
import sqlite3
import sys

import replica_client as rc


def sync(url: str, path: str) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, row TEXT)")
    database.execute("CREATE TABLE IF NOT EXISTS progress (id INTEGER PRIMARY KEY, document TEXT)")
    store = rc.MemoryPositionStore()
    if row := database.execute("SELECT document FROM progress").fetchone():
        store.save(rc.Position.from_json(json.loads(row[0])[0]), json.loads(row[0])[1])
    with rc.follow(
        url, tables=["shop.orders"], start="earliest", position_store=store, stop_at_end=True
    ) as stream:
        for change in stream.changes():
            if change.after is None:
                database.execute("DELETE FROM orders WHERE id = ?", change.key or ())
            else:
                line = json.dumps(dict(change.after), default=str)
                database.execute("REPLACE INTO orders VALUES (?, ?)", (change.after["id"], line))
        document = json.dumps([stream.position.to_json(), stream.state()])
        database.execute("REPLACE INTO progress VALUES (1, ?)", (document,))
    database.commit()


if __name__ == "__main__":
    sync(*sys.argv[1:])
