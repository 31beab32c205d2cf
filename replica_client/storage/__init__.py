"""Files on disk and in object stores, file names for databases and tables, and TOML."""
