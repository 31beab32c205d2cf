"""The bytes of an event beside their meaning: what ``replica-client annotate`` prints.

The layouts here are written a second time, apart from the decoders, byte by byte and with names and
units; tests hold both against each other on every event of real files.
"""
