"""Installs the shim in Python programs that ``python -m replica_client.compat run --children`` starts.

Python imports a module of this name at its start. Another module of this name that follows on the
path is run, too.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_here = Path(__file__).resolve().parent
sys.path[:] = [path for path in sys.path if Path(path).resolve() != _here]
try:
    from replica_client.compat.shim import install_as_child
except ImportError:
    pass  # another environment's Python
else:
    install_as_child()
_other = PathFinder.find_spec("sitecustomize", sys.path)
if _other is not None and _other.loader is not None:
    _other.loader.exec_module(module_from_spec(_other))
