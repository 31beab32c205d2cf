"""The server's side of the protocol: binlog files, served to any client, and the ``relay``."""
