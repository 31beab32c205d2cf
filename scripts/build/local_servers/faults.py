"""The one error that `scripts/servers` reports to its user."""


class ServersError(Exception):
    """One line that says what is wrong, where, and what to do; the exit status is then 1."""
