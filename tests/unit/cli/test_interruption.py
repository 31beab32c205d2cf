"""A signal ends the work on the next item at once, and lets what was given be finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica_client.cli.interruption import SIGNALS, Stop


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("when", ["making", "using"])
def test_a_signal(number: signal.Signals, when: str) -> None:
    made, used = [], []

    def items() -> Iterator[int]:
        for item in range(3):
            if when == "making" and item == 1:
                os.kill(os.getpid(), number)
            made.append(item)  # as long as it may take
            yield item

    with pytest.raises(KeyboardInterrupt), Stop().watching() as stop:
        for item in stop.until(items()):
            if when == "using" and item == 1:
                os.kill(os.getpid(), number)
            used.append(item)
    assert (made, used) == (([0], [0]) if when == "making" else ([0, 1], [0, 1]))


def test_no_signal() -> None:
    with Stop().watching() as stop:
        assert list(stop.until(range(3))) == [0, 1, 2]


# At every n-th import the process is copied; the copy gets the signal there, and is to end at once.
_AT_EVERY_IMPORT = """
import os, signal, sys
number, expected, step = signal.Signals[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])
sys.argv[1:4] = []
seen = 0

class Finder:
    @staticmethod
    def find_spec(name, path, target=None):
        global seen
        if os.getpid() != parent:
            return None
        seen += 1
        if seen % step:
            return None
        copy = os.fork()
        if not copy:
            signal.alarm(20)
            os.kill(os.getpid(), number)
            return None
        status = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
        if status != expected:
            print("at", name, "status", status, file=sys.stderr)

from replica_client.cli import interruption
parent = os.getpid()
install = interruption.end_at_once

def install_and_copy(status):
    install(status)
    sys.meta_path.insert(0, Finder)
    interruption.end_at_once = install

interruption.end_at_once = install_and_copy
from replica_client.cli.start import main
status = main()
if os.getpid() != parent:
    sys.exit(status)
assert seen > 50, seen
"""

_REFUSED = """
[daemon]
listen = ""
state = "/proc/none"
[[source]]
name = "shop"
url = "mysql://repl@127.0.0.1:1/"
[[source.sink]]
name = "lines"
type = "stdout"
"""


@pytest.mark.parametrize(
    ("number", "words", "step"),
    [
        (signal.SIGINT, "run", 4),
        (signal.SIGTERM, "run --", 5),
        (signal.SIGINT, "changes --limit 1", 25),
        (signal.SIGTERM, "changes", 25),
    ],
)
@pytest.mark.slow
def test_a_signal_while_modules_are_imported(
    number: signal.Signals, words: str, step: int, shop: list[str], tmp_path: Path
) -> None:
    source, status = shop[0], 130
    if words.startswith("run"):
        # With all that is imported before its loop runs.
        config = tmp_path / "shop.toml"
        config.write_text(_REFUSED)
        source, status = str(config), 0
    program = [sys.executable, "-c", _AT_EVERY_IMPORT, number.name, str(status), str(step)]
    done = subprocess.run(
        [*program, *words.split(), source],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=100,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    refused = [line for line in done.stderr.splitlines() if "state directory /proc/none" in line]
    assert done.stderr.splitlines() == refused[:1]
    assert len(refused) == (status == 0)


_DROPPED = """
import signal, sys, threading, time
from replica_client.cli.interruption import interrupt_again
sys.unraisablehook = interrupt_again

start = threading.Thread.start

def start_slowly(thread):
    # As on a busy machine: the new thread runs long before the one that started it goes on.
    start(thread)
    time.sleep(SECONDS)

threading.Thread.start = start_slowly

class Dropping:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    Dropping()
    time.sleep(60)
except KeyboardInterrupt:
    print("heard")
"""


@pytest.mark.parametrize("seconds", [0, 0.3])
def test_an_interrupt_that_python_drops_comes_again(seconds: float) -> None:
    program = _DROPPED.replace("SECONDS", str(seconds))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert (done.stdout, done.stderr) == ("heard\n", "")


# What runs the command with a step of its own in the place of the subcommand's work.
_PROGRAM = """
import atexit, os, signal, sys, threading, time
from replica_client.cli import main as command

def step(words):
    STEP

command._run = step
from replica_client.cli.start import main
raise SystemExit(main())
"""


@pytest.mark.parametrize(
    ("step", "status"),
    [
        # Modules make classes so: Python remembers that an interrupt left such a text.
        ("exec('signal.raise_signal(signal.SIGTERM)')", 130),
        ("exec('signal.raise_signal(signal.SIGINT)')", 130),
        # While Python waits for threads, calls what atexit has, and takes modules apart.
        ("threading.Thread(target=lambda: (time.sleep(0.3), WHEN)).start(); return 0", 0),
        ("atexit.register(lambda: WHEN); return 0", 0),
        ("sys.last = type('Last', (), {'__del__': lambda _: WHEN})(); return 0", 0),
        ("sys.last = type('Last', (), {'__del__': lambda _: WHEN})(); return 1", 1),
    ],
)
def test_a_signal_at_the_end_is_no_status(step: str, status: int, tmp_path: Path) -> None:
    when = "[os.kill(os.getpid(), one) for one in (signal.SIGINT, signal.SIGTERM)]"
    package = tmp_path / "ends"
    package.mkdir()
    program = _PROGRAM.replace("STEP", step).replace("WHEN", when)
    (package / "__main__.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "ends"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stderr) == (status, "")


_HEARD = """
import asyncio, os, signal, sys
from replica_client.cli.interruption import heard

async def work():
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    close = loop.close
    def closing():
        # Where the loop's own handlers are taken away.
        os.kill(os.getpid(), signal.SIGTERM)
        close()
        os.kill(os.getpid(), signal.SIGTERM)
    loop.close = closing
    with heard({signal.SIGTERM: done.set}):
        loop.call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
        await done.wait()

signal.signal(signal.SIGTERM, lambda *_: print("before"))
asyncio.run(work())
print("over")
"""


def test_no_signal_kills_while_a_loop_closes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HEARD], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "before\nbefore\nover\n", "")
