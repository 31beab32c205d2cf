"""The accounts that every server has: `root` without a password, `repl` with a replica's rights."""

from local_servers.recipes import Recipe

REPLICA_USER = "repl"
REPLICA_PASSWORD = "secret"

_GRANTS = "SELECT, RELOAD, LOCK TABLES, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT"


def account_statements(recipe: Recipe) -> list[str]:
    """SQL to run once in a new data directory: one statement per item, none with a line break.

    `root` can come over TCP from 127.0.0.1 whatever that resolves to; nobody is anonymous.
    """
    replica = f"'{REPLICA_USER}'@'%'"
    statements = [
        f"CREATE USER {replica} IDENTIFIED BY '{REPLICA_PASSWORD}'",
        f"GRANT {_GRANTS} ON *.* TO {replica}",
    ]
    if recipe.flavor == "mysql" and recipe.npm is None:
        statements.append("CREATE USER 'root'@'127.0.0.1' IDENTIFIED BY ''")
        statements.append("GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION")
        return statements
    if recipe.flavor == "mysql":
        statements = [f"GRANT {_GRANTS} ON *.* TO {replica} IDENTIFIED BY '{REPLICA_PASSWORD}'"]
        statements.append("GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION")
        statements.append("DELETE FROM mysql.user WHERE User = ''")
    statements.append("FLUSH PRIVILEGES")
    return ["FLUSH PRIVILEGES", *statements]
