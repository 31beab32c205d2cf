"""Parts of ``replica-client demo``: a source, a pipeline that is killed, and the proof."""
