"""The verification that a lake equals its source: checksums of ranges first, then rows that differ."""
