"""Changes of a table: net changes, ALTERs and their columns, changes of types that keep values, and its copy."""
