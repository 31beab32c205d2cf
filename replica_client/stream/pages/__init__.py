"""Pages that a running process shows over HTTP: metrics, health, state."""
