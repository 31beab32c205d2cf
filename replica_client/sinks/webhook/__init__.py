"""Row changes as HTTP requests."""
