"""The command ``replica-client``: one module per subcommand, put together in ``main``."""
