"""Tables of another database that are kept equal to the source's tables."""
