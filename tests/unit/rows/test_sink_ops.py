"""The constants of the compiler are those of Python."""

import re
from pathlib import Path

from replica_client.rows import sink_ops


def test_both_files_have_the_same_numbers() -> None:
    text = Path(sink_ops.__file__).with_suffix(".pxd").read_text(encoding="utf-8")
    compiled = {
        name: int(value) for name, value in re.findall(r"^ {4}(\w+) = (-?\d+)$", text, re.M)
    }
    known = {name: value for name, value in vars(sink_ops).items() if isinstance(value, int)}
    assert compiled == known
    assert len(compiled) > 25
