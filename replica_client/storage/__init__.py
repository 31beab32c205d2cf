"""Storage of data: names of databases and tables as names of files, and the places of files."""
