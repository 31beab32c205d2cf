"""Measures the Spark data source."""
