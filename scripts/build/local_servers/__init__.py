"""Real MySQL and MariaDB servers for tests, as local processes or as container images.

`scripts/servers` is the command on top of this package. It needs only Python's standard library.
"""
