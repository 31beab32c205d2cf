"""Numbers fixed by the protocol, in upstream spelling."""
