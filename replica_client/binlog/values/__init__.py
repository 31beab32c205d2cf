"""Column values: one module per family of types, each decoding and encoding.

The value types are exact: what a server can store they can hold, and their ``str()`` is the
server's own text.
"""
