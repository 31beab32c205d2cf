"""Row images as Python rows or Arrow record batches."""
