"""The same four iterators from two places: binlog files and a live source."""
