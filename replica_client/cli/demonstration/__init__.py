"""What ``replica-client demo`` is made of: a source, a pipeline that is killed, and the proof."""
