"""The whole proof of mixed statements on one server: files, live readers, kills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.integration.mix_followers import Follower, read_earliest
from tests.integration.mix_kills import Killer, check_runs
from tests.integration.mixes import Epoch, Report, casefolds, prove_files
from tests.servers.local import LocalServer


def prove_mixes(
    server: LocalServer,
    directory: Path,
    seeds: Sequence[int],
    transactions: int,
    *,
    kills: int = 0,
    without: frozenset[str] = frozenset(),
) -> tuple[Report, list[Epoch], int]:
    """Write epochs; read them from files, from ``latest`` meanwhile, after kills, and from ``earliest``.

    Returns:
        What was seen, the epochs, and how many clients were killed.
    """
    report = Report()
    follower = Follower(server)
    follower.begin()
    killer = Killer(server, directory, kills, seeds[0]) if kills else None
    if killer is not None:
        killer.start()

    def begins() -> None:
        follower.epoch_begins()
        if killer is not None:
            killer.epoch_begins()

    try:
        epochs = prove_files(server, seeds, transactions, report, without, begins)
    finally:
        follower.finish()
        if killer is not None:
            killer.finish()
    casefold = casefolds(server)
    for segment in follower.segments:
        segment.check("latest", epochs, report, casefold=casefold)
    read_earliest(server, epochs, report)
    if killer is not None:
        check_runs(server, killer, epochs, report)
    return report, epochs, 0 if killer is None else killer.kills
