"""Live sources: the connection, where it starts, what it knows of tables, and the four iterators over it."""
