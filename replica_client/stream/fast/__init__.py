"""The fast path: ordinary transactions from bytes to columns or rows, without event objects."""
