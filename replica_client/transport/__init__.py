"""asyncio: login and SQL through aiomysql, the dump loop of our own, TLS."""
