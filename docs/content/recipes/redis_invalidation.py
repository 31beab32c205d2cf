"""Redis: delete the cached copy of a row when the row changes.

    python redis_invalidation.py mysql://repl:secret@db1/ redis://localhost/

Keys are named shop.orders:42. The position is saved after the keys are deleted: after a kill some are deleted again,
which does no harm, and no stale copy stays.
"""

import sys

import redis

import replica_client as rc


def invalidate(url: str, cache: redis.Redis, *, stop_at_end: bool = False) -> int:
    deleted = 0
    with rc.follow(
        url, tables=["shop.*"], position_store="cache.position", stop_at_end=stop_at_end
    ) as stream:
        for transaction in stream.transactions():
            keys = {
                f"{change.database}.{change.table}:{change.key[0]}"
                for change in transaction.changes
                if change.key
            }
            if keys:
                deleted += cache.delete(*keys)
            stream.acknowledge(transaction)
    return deleted


if __name__ == "__main__":
    invalidate(sys.argv[1], redis.Redis.from_url(sys.argv[2]))
