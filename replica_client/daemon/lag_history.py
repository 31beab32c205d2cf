"""A route's lag and speed over time, for the plots."""

from __future__ import annotations

from collections import deque

from replica_client.daemon.observation import Observation

_KEPT = 720


class History:
    """A bounded series of samples of one route.

    Args:
        observation: of the route.
    """

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        self._samples: deque[tuple[float, float, int | None, float, float]] = deque(maxlen=_KEPT)
        self._before: tuple[float, int, int] | None = None

    def sample(self, now: float, clock: float, lag_bytes: int | None) -> None:
        """Add a sample.

        Args:
            now: seconds since 1970.
            clock: monotonic seconds.
            lag_bytes: of binlog that is not committed, None when not known.
        """
        seen = self._observation
        rows, size = seen.rows_written, seen.received
        rows_rate = bytes_rate = 0.0
        if self._before is not None and clock > self._before[0]:
            seconds = clock - self._before[0]
            rows_rate = (rows - self._before[1]) / seconds
            bytes_rate = (size - self._before[2]) / seconds
        self._before = (clock, rows, size)
        self._samples.append((now, seen.lag_seconds(), lag_bytes, rows_rate, bytes_rate))

    def to_json(self) -> list[list[float | int | None]]:
        """Return ``[time, lag in seconds, lag in bytes, rows/s, bytes/s]`` for each sample."""
        return [
            [round(at, 1), round(lag, 3), behind, round(rows, 1), round(size)]
            for at, lag, behind, rows, size in self._samples
        ]
