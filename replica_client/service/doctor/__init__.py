"""The doctor: whether a source can be followed by its settings, and the remedy where it cannot."""
