"""Transforms of rows and definitions before delivery: columns hidden, rows chosen, tables renamed."""
