"""The commands on an archive whose files are kept compressed and encrypted, and on a server's data directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.storage import kept_file
from replica_client.storage.kept_file import Keeping, keep
from tests.unit.cli.conftest import Result

Run = Callable[..., Result]

DATA = Path(rc.__file__).parent / "testing" / "data"
KEY = b"\x5a" * 32
TABLE = ("--table", "shop.orders")
COMMANDS: list[tuple[str, ...]] = [
    ("check", "{0}"),
    ("changes", "{0}", "--json", *TABLE),
    ("events", "{0}"),
    ("find", "{0}", "--key", "1", "--json", *TABLE),
    ("find", "{0}", "--column", "state", "--to", "paid", *TABLE),
    ("history", "{0}", "--key", "1", *TABLE),
    ("undo", "{0}", *TABLE),
    ("redo", "{0}", *TABLE),
    ("stats", "{0}"),
    ("as-of", "{0}", "--at", "shop-bin.000002:4", *TABLE),
    ("sql", "SELECT count(*), max(_offset) FROM shop.orders", "{0}"),
]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    directory = tmp_path / "plain"
    directory.mkdir()
    for path in DATA.glob("shop-bin.0*"):
        shutil.copy(path, directory)
    return directory


@pytest.fixture(params=[Keeping(compressed=True), Keeping(True, KEY)], ids=["zstd", "zstd-aes"])
def kept(plain: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """All but the newest file in their kept form, as ``backup`` leaves them."""
    directory = tmp_path / "kept"
    directory.mkdir()
    *finished, newest = sorted(plain.iterdir())
    for path in finished:
        name = f"{path.name}.{path.stat().st_size}{request.param.suffix}"
        with path.open("rb") as source, (directory / name).open("wb") as target:
            keep(source, path.stat().st_size, target, request.param)
    shutil.copy(newest, directory)
    return directory


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one[0])
def test_each_command_reads_a_kept_archive(
    run: Run,
    plain: Path,
    kept: Path,
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(kept_file.KEY_VARIABLE, KEY.hex())
    expected, found = (
        run(*(part.format(directory) for part in command)) for directory in (plain, kept)
    )
    assert found.status == expected.status == 0, found.err
    assert expected.out
    assert found.out.replace(str(kept), str(plain)) == expected.out


def test_encrypted_files_need_the_key_and_leave_no_index_in_clear(
    run: Run, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_file, "_keys", {})
    monkeypatch.delenv(kept_file.KEY_VARIABLE, raising=False)
    path = plain / "shop-bin.000001"
    directory = tmp_path / "encrypted"
    directory.mkdir()
    name = f"{path.name}.{path.stat().st_size}.rce"
    with path.open("rb") as source, (directory / name).open("wb") as target:
        keep(source, path.stat().st_size, target, Keeping(True, KEY))
    arguments = ("find", str(directory), "--key", "1", *TABLE)
    refused = run(*arguments)
    assert refused.status != 0
    assert "is encrypted with the key" in refused.err
    key_file = tmp_path / "key"
    key_file.write_text(KEY.hex() + "\n")
    assert run(*arguments, "--key-file", str(key_file)).status == 0
    assert [one.name for one in directory.iterdir()] == [name]


def test_a_data_directory_is_taken_as_it_is(run: Run, plain: Path) -> None:
    """A server has an index of its binlog, logs of Aria, and logs of what it replicates itself."""
    names = sorted(path.name for path in plain.iterdir())
    (plain / "shop-bin.index").write_text("".join(f"./{name}\n" for name in names))
    for other in ("aria_log.00000001", "db2-relay-bin.000007", "old-bin.000001", "ib_logfile0"):
        (plain / other).write_bytes(b"\xfe\xfe\x0c\x01 no binlog")
    (plain / "db2-relay-bin.index").write_text("./db2-relay-bin.000007\n")
    assert run("check", str(plain)).status == 0
    assert run("find", str(plain), "--key", "1", *TABLE).status == 0
