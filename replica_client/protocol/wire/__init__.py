"""The client/server protocol without any I/O: bytes in, packets and events out."""
