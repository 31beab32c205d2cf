"""Passwords in errors: whatever was meant as a URL, path, DSN or JDBC string."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from replica_client import errors
from replica_client.cli.program import one_line
from replica_client.errors import ConfigError, ReplicaClientError, without_secrets
from tests.source.planted_files import Document, documents, outputs_of
from tests.source.planted_secrets import MARK, commands, output_of, places, program

PLACES = list(places())
DOCUMENTS = list(documents())
_ALONE = (["demo"],)  # takes no place, file or URL


def test_there_are_enough_of_them() -> None:
    assert len(PLACES) >= 60 and len(list(commands())) >= 40
    assert all(MARK in one for one in PLACES)
    assert len(DOCUMENTS) >= 200 and len({one.name for one in DOCUMENTS}) == len(DOCUMENTS)
    assert all(MARK in one.text + str(one.environment) for one in DOCUMENTS)


def test_every_command_and_option_is_tried() -> None:
    """Those that are added to the program are tried with them: the list is the program's own."""
    tried = list(commands())
    for words, command in program():
        mine = [one for one in tried if one[: len(words)] == words]
        assert mine or words in _ALONE, words
        for one in command.params:
            if one.param_type_name == "option" and not one.is_flag and words not in _ALONE:
                assert any(f"{one.opts[0]} {{}}" in " ".join(line) for line in mine), (words, one)


@pytest.mark.parametrize("place", PLACES)
def test_no_error_has_it(place: str) -> None:
    for text in (
        place, f"cannot look at {place}: no such file; check it", f"{place!r} is wrong", f"--url={place}, x",
        f"'{place}'", f"a.b ({place})",
    ):  # fmt: skip
        for shown in (
            without_secrets(text),
            str(ConfigError(text)),
            repr(ReplicaClientError(text)),
            str(errors.ServerError(1045, "28000", text)),
            one_line(FileNotFoundError(2, "No such file", place)),
            one_line(ValueError(text)),
        ):
            assert MARK not in shown, shown


@pytest.mark.parametrize(
    "text",
    [
        "follows from binlog.000001:3551@22d8ae9d-ea0b-11f1-9e2f-02fc00000001:1-13",
        "binlog.000001:4@0-1-9,1-1-7",
        "mysql://repl@db1:3306/shop?tls=required",
        "unverified_password=never refuses this",
        "put tls_fingerprint=sha256:b38ab8f6 into the URL",
        'password = "file:/run/secrets/kafka"',
        "give password=${TOKEN}",
        "server error 1045 (28000): Access denied for user 'repl'@'localhost' (using password: YES)",
        "sink http: url: it has a password; give it in headers",
        "2026-11-27T02:31:31: x",
        "file binlog.000001, position 4: column 'email' at 10:30",
        "[::1]:3306: connection refused",
    ],
)
def test_what_is_no_password_stays(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mysql://u:p@h/ is away; check it", "mysql://u:***@h/ is away; check it"),
        ("repl:s@db1:3306: No such file", "repl:***@db1:3306: No such file"),
        ("host=h password=p: No such file", "host=h password=***: No such file"),
        ("x?password=p&tls=required", "x?password=***&tls=required"),
        ("mysql://a:p1@h1,mysql://b:p2@h2/", "mysql://a:***@h2/"),
    ],
)
def test_the_rest_of_the_line_stays(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_no_text_takes_long() -> None:
    begun = time.process_time()
    for text in ("a" * 99_999, "a:" * 50_000, "@" * 99_999, "password" * 12_000, "password='" + "\\" * 99_999,
                 "x:/" * 30_000, "a.-" * 33_000, "=" * 99_999, "pwd=" * 25_000):  # fmt: skip
        without_secrets(text)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("place", PLACES[:: len(PLACES) // 4])
def test_no_command_prints_it(place: str) -> None:
    for command in list(commands())[::7]:
        shown = output_of(command, place)
        assert MARK not in shown, (command, shown)


@pytest.mark.parametrize("document", DOCUMENTS[::7], ids=lambda document: document.name)
def test_no_command_prints_what_its_file_has(document: Document, tmp_path: Path) -> None:
    """All of them are tried by scripts/proofs/passwords --planted."""
    for command, shown in outputs_of(replace(document, commands=document.commands[:2]), tmp_path):
        assert MARK not in shown, (command, shown)


def test_a_key_in_the_place_of_its_file_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "0123456789abcdef" * 4
    tried = [one for one in commands() if "--key-file {}" in " ".join(one)]
    assert len(tried) >= 10
    for command in tried:
        assert key not in output_of(command, key), command
    monkeypatch.setenv("REPLICA_CLIENT_ARCHIVE_KEY_FILE", key)
    shown = output_of("backup {url} x --encrypt".split(), "")
    assert key not in shown and "the path of a file" in shown


@pytest.mark.parametrize("token", ["two words", "täglich", "a\nb", "a\x00b"])
def test_a_token_that_is_none_is_not_printed(token: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(token)
    words = ["service", "status", "http://127.0.0.1:1", "--token-file", str(tmp_path / "token")]
    shown = output_of(words, "")
    assert token not in shown and "one word" in shown


def test_a_token_goes_to_no_other_machine_in_clear(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef")
    words = ["service", "status", "http://192.0.2.1:1", "--token-file", str(tmp_path / "token")]
    assert "in clear" in output_of(words, "")


def test_the_search_finds_a_mark(tmp_path: Path) -> None:
    assert MARK in output_of(["changes", "{}"], f"/nonexistent/{MARK}")
    text = f'[[source]]\nname = "x"\nurl = "mysql://u@h/"\n{MARK} = 1\n'
    document = Document("an unknown key", "c.toml", text, ("run --check {}",))
    assert MARK in next(outputs_of(document, tmp_path))[1]
