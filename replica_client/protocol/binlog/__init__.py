"""Binlog events: header, context, decoder, encoder, events and column values. No I/O."""
