"""Read and write bytes; no other package slices them."""
