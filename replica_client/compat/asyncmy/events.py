"""Events under asyncmy's names."""

from replica_client.compat.asyncmy.utils import byte2int as byte2int, int2byte as int2byte
from replica_client.compat.pymysqlreplication.event import (
    BeginLoadQueryEvent as BeginLoadQueryEvent,
    BinLogEvent as BinLogEvent,
    ExecuteLoadQueryEvent as ExecuteLoadQueryEvent,
    FormatDescriptionEvent as FormatDescriptionEvent,
    GtidEvent as GtidEvent,
    HeartbeatLogEvent as HeartbeatLogEvent,
    IntvarEvent as IntvarEvent,
    NotImplementedEvent as NotImplementedEvent,
    QueryEvent as QueryEvent,
    RotateEvent as RotateEvent,
    StopEvent as StopEvent,
    XidEvent as XidEvent,
)
