"""FastAPI: changes as server-sent events; a browser that comes back continues where it was.

SOURCE_URL=mysql://repl:secret@db1/ uvicorn fastapi_sse:app

The id of an event is its position. A browser sends the last one back as the header Last-Event-ID.
"""

import os
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse

import replica_client as rc

app = FastAPI()
END = os.environ.get("STOP_AT_END") == "1"  # for tests


async def events(start: rc.Position | str) -> AsyncIterator[str]:
    url = os.environ["SOURCE_URL"]
    async with rc.connect(url, tables=["shop.*"], start=start, stop_at_end=END) as stream:
        async for change in stream.changes(timeout=15):
            if change is None:
                yield ": nothing new\n\n"  # keeps proxies from closing the connection
            else:
                yield f"id: {change.position}\nevent: {change.table}\ndata: {change.to_json()}\n\n"


@app.get("/changes")
async def changes(last_event_id: Annotated[str, Header()] = "") -> StreamingResponse:
    try:
        start = rc.Position.parse(last_event_id) if last_event_id else "latest"
    except rc.ReplicaClientError as error:
        raise HTTPException(400, str(error)) from None
    return StreamingResponse(events(start), media_type="text/event-stream")
