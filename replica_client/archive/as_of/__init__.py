"""A table as it was at a moment: backward from the table as it is, or forward from a copy."""
