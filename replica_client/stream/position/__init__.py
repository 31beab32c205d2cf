"""Positions in a source's binlog: values, the tracker that finds safe ones, and stores."""

from replica_client.protocol.position import Position
from replica_client.stream.position.tracker import PositionTracker, TransactionBoundary

__all__ = ["Position", "PositionTracker", "TransactionBoundary"]
