"""Many binlog files, or what a live source has, as tables that are read lazily."""
