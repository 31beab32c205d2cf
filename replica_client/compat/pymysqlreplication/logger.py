"""The logger that programs set up under this name."""

import logging

logger = logging.getLogger("pymysqlreplication")
