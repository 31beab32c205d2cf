"""Whether a source can be followed: what it is set to, and the remedy where that is not right."""
