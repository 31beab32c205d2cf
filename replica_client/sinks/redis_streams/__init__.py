"""Row changes as entries of a Redis stream."""
