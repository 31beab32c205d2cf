"""Tables of character sets, written by scripts/capture_charsets."""
