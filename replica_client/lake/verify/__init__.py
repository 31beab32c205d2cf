"""Whether the lake equals its source: checksums of ranges first, rows where they differ."""
