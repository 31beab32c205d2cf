"""What follows a table: net changes, what an ALTER does to its columns, changes of types that keep values, its copy."""
