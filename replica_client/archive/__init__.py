"""Many binlog files, or the binlog of a live source, as tables that are read lazily."""
