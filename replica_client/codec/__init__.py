"""Bytes in and out: the only place that slices them."""
