"""Formats of changes as JSON text: the native one, and those of other programs."""
