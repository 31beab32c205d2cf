"""Sinks of JSON Lines: in files, exactly once, and on standard output."""
