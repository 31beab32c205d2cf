"""``python -m replica_client`` is the command ``replica-client``."""

from replica_client.cli.start import main

if __name__ == "__main__":
    raise SystemExit(main())
