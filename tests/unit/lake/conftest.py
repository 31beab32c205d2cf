"""Nothing here is collected where deltalake is not installed; PySpark is not needed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("deltalake") else ["test_*.py"]
