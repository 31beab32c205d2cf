"""The programs of ``replica-client pipeline``.

A stream of batches fills a change log, and merges bring it into the lake's tables; Spark does what is large.
"""
