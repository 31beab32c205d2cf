"""Shapes of changes as JSON text: our own, and those of other programs for people who change over."""
