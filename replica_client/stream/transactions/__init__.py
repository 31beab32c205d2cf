"""Events assembled into transactions: statements, savepoints, losses, the schema while reading."""
