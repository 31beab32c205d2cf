"""The position-resume daemon: configuration, routes, delivery, pages, ``doctor``, ``migration``."""
