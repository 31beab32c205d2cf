"""A source, live or in files, and a consumer's position in it: connections, transactions, the fast path."""
