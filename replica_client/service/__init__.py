"""The position-resume daemon: follows sources for months, and delivers to sinks."""
