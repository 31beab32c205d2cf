"""Row changes as requests of HTTP."""
