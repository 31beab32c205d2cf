"""The lake: current-state tables, made of the change log."""
