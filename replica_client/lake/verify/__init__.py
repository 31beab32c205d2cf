"""Verification that a lake equals its source: checksums of ranges, then rows of those that differ."""
