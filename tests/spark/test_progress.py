"""What a pipeline tells where there is no terminal: within five seconds, and nothing twice."""

import io
import time

import pytest

pytest.importorskip("deltalake")

from rich.console import Console

from replica_client.lake.pipeline.run_history import Batch, Progress


def batch(rows, end):
    return Batch(rows, f"b.000001:{end}", 0.1)


@pytest.fixture
def shown():
    """A run whose times are a tenth, and its lines."""
    text = io.StringIO()
    progress = Progress(Console(file=text, width=200), every=0.3, again=1.0)
    yield progress, lambda: text.getvalue().splitlines()
    progress.stop()


def wait(lines, count):
    until = time.monotonic() + 20
    while len(lines()) < count:
        assert time.monotonic() < until, lines()
        time.sleep(0.02)


def test_what_is_long_is_told_and_told_again(shown):
    progress, lines = shown
    begun = time.monotonic()
    progress.start("copying tables")
    wait(lines, 1)
    assert lines() == ["copying tables"]
    wait(lines, 2)
    assert time.monotonic() - begun >= 1.0
    assert lines()[1].startswith("copying tables (")


def test_a_stream_that_stands_still_is_told_once(shown):
    progress, lines = shown
    progress.start("")
    progress.update([batch(5, 100)])
    wait(lines, 1)
    for _ in range(40):
        progress.update([])
        time.sleep(0.02)
    assert len(lines()) == 1
    assert lines()[0].startswith("5 changes in 1 batch")
    progress.update([batch(7, 200)])
    wait(lines, 2)
    assert "12 changes in 2 batches" in lines()[1] and "b.000001:200" in lines()[1]


def test_what_is_done_soon_is_not_told(shown):
    progress, lines = shown
    progress.start("")
    begun = time.monotonic()
    while time.monotonic() - begun < 1.2:
        progress.say("merging")
        time.sleep(0.01)
        progress.say("")
    assert lines() == []


def test_the_end_may_be_silent():
    text = io.StringIO()
    progress = Progress(Console(file=text), every=60)
    progress.start("starting")
    progress.update([batch(5, 100)])
    progress.stop(tell=False)
    assert text.getvalue() == ""
    progress.stop()
    assert "5 changes" in text.getvalue()


def test_a_state_that_lasts_is_told_once_however_often_it_is_looked_at(shown):
    progress, lines = shown
    progress.start("waiting")
    for _ in range(80):  # a standby looks at the lock four times a second
        progress.note("standby: process 5 writes")
        time.sleep(0.02)
    assert lines() == ["standby: process 5 writes"]
    progress.note("standby: process 6 writes")
    assert lines()[1:] == ["standby: process 6 writes"]
