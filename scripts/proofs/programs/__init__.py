"""Programs that others wrote on python-mysql-replication and asyncmy, run with the originals and with the shim."""
