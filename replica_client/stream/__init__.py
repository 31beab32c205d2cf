"""A source, live or in files, and where a consumer is in it: positions, connections, transactions."""
