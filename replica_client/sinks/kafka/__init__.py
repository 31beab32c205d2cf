"""Row changes as messages of Kafka topics, committed together with their position."""
