"""The programs of ``replica-client pipeline``.

A streaming query writes a change log, and merges bring it into the lake's tables.
"""
