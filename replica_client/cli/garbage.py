"""No garbage is looked for while modules are imported: there is none, and looking takes a tenth of the start."""

from __future__ import annotations

import gc


def import_without_collection() -> None:
    """The program begins: modules are imported next."""
    gc.disable()


# Objects that are made before the young ones are looked through; 700 is Python's own. Many new tables are many
# objects that stay, and are no garbage.
_YOUNG = 20_000


def collect_from_here() -> None:
    """What the command needs is imported, and stays: only what comes from here on is looked through."""
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    gc.enable()
