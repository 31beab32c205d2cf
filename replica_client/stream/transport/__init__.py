"""Connections to a source over asyncio: login and SQL through aiomysql, our own dump loop, TLS."""
