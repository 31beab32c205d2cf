"""``replica-client demo``: the main job on the embedded source."""

from __future__ import annotations

from replica_client.cli.extras import extra_module

EXAMPLE = "replica-client demo"


def demo() -> None:
    """Run the whole path in a minute: no MySQL, no Docker, no Java needed.

    The testing source serves a small binlog over the real replication protocol; the client logs in,
    dumps and decodes; the Spark pipeline writes a change log, is stopped, and resumes.
    """
    extra_module("replica_client.spark.demo", "spark").run_demo()
