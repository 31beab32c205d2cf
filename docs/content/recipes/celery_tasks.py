"""Celery: each change becomes a task; a worker does the work.

    celery -A celery_tasks worker
    python celery_tasks.py mysql://repl:secret@db1/

The position is saved once the broker has the tasks: after a kill a task may come again, and none is lost. A task that
must not be done twice looks at `file`, `position` and `row_index`, which name its change.
"""

import json
import os
import sys

from celery import Celery

import replica_client as rc

app = Celery("shop", broker=os.environ.get("BROKER_URL", "redis://localhost/"))


@app.task
def changed(change: str) -> None:
    fields = json.loads(change)
    print(fields["kind"], fields["table"], fields["after"] or fields["before"])


def main(url: str, **options: object) -> None:
    with rc.follow(url, position_store="celery.position", **options) as stream:
        for transaction in stream.transactions():
            for change in transaction.changes:
                changed.delay(change.to_json())
            stream.acknowledge(transaction.position)


if __name__ == "__main__":
    main(sys.argv[1])
