"""Row changes as messages of a NATS JetStream stream."""
