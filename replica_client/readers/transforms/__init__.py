"""What is done to rows and definitions before anything else sees them: columns hidden, rows chosen, tables renamed."""
