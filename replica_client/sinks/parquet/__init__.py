"""Parquet files of row changes by table and time."""
