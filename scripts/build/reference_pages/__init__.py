"""Makes parts of the documentation from the code; see :mod:`reference_pages.parts`."""
