"""FastAPI: a stream that lives as long as the application.

    SOURCE_URL=mysql://repl:secret@db1/ uvicorn fastapi_lifespan:app

The stream runs in the application's event loop, as a task that its lifespan owns. Where it fails, `/health` says so.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Response

import replica_client as rc

counts: Counter[str] = Counter()


async def follow(url: str) -> None:
    start = os.environ.get("SOURCE_START", "latest")
    async with rc.connect(
        url, start=start, position_store=os.environ.get("SOURCE_POSITION")
    ) as stream:
        async for transaction in stream.transactions():
            for change in transaction.changes:
                counts[f"{change.database}.{change.table}"] += 1
            await stream.acknowledge(transaction.position)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    task = asyncio.create_task(follow(os.environ["SOURCE_URL"]))
    app.state.follower = task
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


app = FastAPI(lifespan=lifespan)


@app.get("/counts")
async def read_counts() -> dict[str, int]:
    return dict(counts)


@app.get("/health")
async def health(response: Response) -> dict[str, str]:
    task = app.state.follower
    if not task.done():
        return {"follower": "running"}
    response.status_code = 503
    return {"follower": str(task.exception() or "ended")}
