"""Where data is kept: how names of databases and tables become names of files and tables."""
