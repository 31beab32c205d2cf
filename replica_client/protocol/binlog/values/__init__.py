"""Column values: one module per family of types, each decoding and encoding.

The value types are exact: they can hold every value that a server can store, and their ``str()`` is
the server's own text.
"""
