"""What ``replica-client pipeline`` runs: a change log by a streaming query, and the lake's tables behind it."""
