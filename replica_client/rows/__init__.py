"""Row images as Python rows, Arrow record batches or text, and conditions on stored bytes."""
