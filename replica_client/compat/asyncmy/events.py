"""Events under asyncmy's names."""

from replica_client.compat.asyncmy.utils import byte2int as byte2int
from replica_client.compat.asyncmy.utils import int2byte as int2byte
from replica_client.compat.pymysqlreplication.event import (
    BeginLoadQueryEvent as BeginLoadQueryEvent,
)
from replica_client.compat.pymysqlreplication.event import BinLogEvent as BinLogEvent
from replica_client.compat.pymysqlreplication.event import (
    ExecuteLoadQueryEvent as ExecuteLoadQueryEvent,
)
from replica_client.compat.pymysqlreplication.event import (
    FormatDescriptionEvent as FormatDescriptionEvent,
)
from replica_client.compat.pymysqlreplication.event import GtidEvent as GtidEvent
from replica_client.compat.pymysqlreplication.event import HeartbeatLogEvent as HeartbeatLogEvent
from replica_client.compat.pymysqlreplication.event import IntvarEvent as IntvarEvent
from replica_client.compat.pymysqlreplication.event import (
    NotImplementedEvent as NotImplementedEvent,
)
from replica_client.compat.pymysqlreplication.event import QueryEvent as QueryEvent
from replica_client.compat.pymysqlreplication.event import RotateEvent as RotateEvent
from replica_client.compat.pymysqlreplication.event import StopEvent as StopEvent
from replica_client.compat.pymysqlreplication.event import XidEvent as XidEvent
