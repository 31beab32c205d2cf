"""Live sources: connection, start, definitions of tables, and the four iterators."""
