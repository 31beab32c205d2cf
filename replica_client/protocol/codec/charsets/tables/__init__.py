"""Tables of character sets, written by scripts/capture/charsets."""
