"""The bytes of an event with their meaning: the output of ``replica-client annotate``."""
