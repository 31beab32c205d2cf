"""When and how often to connect again."""

from __future__ import annotations

import random
from collections.abc import Iterator

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """Jittered exponential backoff.

    Attributes:
        first_delay: seconds before the second try; the first is made at once.
        max_delay: seconds that a delay grows to.
        attempts: tries without any event received in between before giving up; 0: no reconnect.

    Examples:
        >>> never_wait = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0)
        >>> with rc.follow(url, start="earliest", stop_at_end=True, reconnect=never_wait) as stream:
        ...     next(stream.changes()).table
        'customers'
    """

    first_delay: float = 0.2
    max_delay: float = 15.0
    attempts: int = 20

    def __post_init__(self) -> None:
        if self.first_delay < 0 or self.max_delay < self.first_delay or self.attempts < 0:
            raise ConfigError(
                "reconnect: delays must be 0 or more, max_delay not below first_delay"
            )

    def delays(self, generator: random.Random | None = None) -> Iterator[float]:
        """Seconds to wait before each try: full jitter below a bound that doubles."""
        chance = generator or random.Random()
        bound = self.first_delay
        for attempt in range(self.attempts):
            yield 0.0 if attempt == 0 else chance.uniform(bound / 2, bound)
            if attempt:
                bound = min(self.max_delay, bound * 2)
