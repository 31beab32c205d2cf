"""One word for one thing: options of all commands, taken from the code."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import replica_client
from replica_client.cli import app, flags
from replica_client.cli.main import main

DATA = str(Path(replica_client.__file__).parent / "testing" / "data" / "shop-bin.000001")
SHARED = {
    word: (option.metavar, option.help)
    for word, option in (
        (option.default, option)
        for name, value in vars(flags).items()
        if name[0].isupper() and name != "Begin"
        for option in getattr(value, "__metadata__", ())
    )
}
# An option that a command must have, whose text is therefore its own; and a condition that the server takes.
OWN_TEXT = {
    ("history", "--table"), ("as-of", "--table"), ("snapshot", "--table"), ("history", "--key"),
    ("snapshot", "--where"), ("changes", "--since"), ("events", "--since"), ("service", "--table"),
    ("recover", "--to"), ("recover", "--until"), ("service", "--where"), ("service", "--position"),
}  # fmt: skip


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the name of each command, also of those in groups, and the command."""
    for name in app.COMMANDS:
        group: Any = typer.main.get_command(app.make_app(name))
        command = group.commands[name]
        for inner, one in getattr(command, "commands", {name: command}).items():
            yield (name if one is command else f"{name} {inner}"), one


OPTIONS = [
    (name, word, option)
    for name, command in commands()
    for option in command.params
    if option.param_type_name == "option"
    for word in option.opts
]


def test_every_command_is_looked_at():
    names = {name.split()[0] for name, _, _ in OPTIONS}
    assert names == set(app.COMMANDS)
    assert len(SHARED) >= 20


@pytest.mark.parametrize(
    ("name", "word", "option"), OPTIONS, ids=[f"{name} {word}" for name, word, _ in OPTIONS]
)
def test_a_shared_word_means_one_thing(name, word, option):
    if word not in SHARED or (name, word) in OWN_TEXT:
        return
    assert (option.metavar, option.help) == SHARED[word]


def test_a_word_has_one_metavar():
    found = defaultdict(set)
    for name, word, option in OPTIONS:
        if (name, word) not in OWN_TEXT:
            found[word].add(option.metavar)
    assert {word: names for word, names in found.items() if len(names) > 1} == {}


def test_no_help_shows_an_older_word():
    older = {old for words in flags.OLD_WORDS.values() for old in words}
    for name, command in commands():
        own = {word for option in command.params for word in option.opts}
        words = flags.OLD_WORDS[""] | flags.OLD_WORDS.get(name.split()[0], {})
        assert not own & (older & set(words))


@pytest.mark.parametrize("words", [
    ["changes", DATA, "--tables", "shop.orders", "--start", "shop-bin.000001:4", "--limit", "2"],
    ["changes", DATA, "--tables=shop.orders", "--start=shop-bin.000001:4", "--limit=2"],
    ["changes", DATA, "--tables", "shop.orders", "--table", "shop.products", "--limit", "1"],
    ["events", DATA, "--tables", "shop.orders", "--start", "shop-bin.000001:4", "--limit", "2"],
    ["schema", "show", DATA, "--tables", "shop.orders"],
    ["annotate", DATA, "--count", "1"],
])  # fmt: skip
def test_older_words_work(words, capsys):
    newer = {"--tables": "--table", "--start": "--since", "--count": "--limit"}
    assert main(words) == 0
    before = capsys.readouterr()
    parts = [word.partition("=") for word in words]
    now = [f"{newer.get(word, word)}{equals}{value}" for word, equals, value in parts]
    assert main(now) == 0
    assert capsys.readouterr() == before
    assert before.out


def test_an_older_word_of_another_command_is_none(capsys):
    assert main(["check", DATA, "--tables", "shop.orders"]) == 2
    assert "No such option" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "positions"), [
    (["changes", "--limit", "2"], [1987, 1987]),
    (["changes", "--last", "2"], [10167, 9922]),
    (["changes", "--until", "shop-bin.000001:2250"], [1987] * 7),
    (["events", "--limit", "2"], [4, 127]),
    (["events", "--last", "1"], [10289]),
    (["events", "--until", "shop-bin.000001:158"], [4, 127]),
])  # fmt: skip
def test_what_is_printed_has_an_end(words, positions, capsys):
    import json

    assert main([words[0], DATA, *words[1:], "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["position"] for line in lines] == positions


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["changes", DATA, "--limit", "1", "--last", "1"], "give one of --limit and --last"),
        (["events", DATA, "--limit", "1", "--last", "1"], "give one of --limit and --last"),
        (["changes", DATA, "--last", "1", "--position-file", "p"], "leave --position-file out"),
        (["changes", "mysql://u@127.0.0.1:1/", "--last", "1"], "add --stop-at-end or --until"),
        (["events", "mysql://u@127.0.0.1:1/", "--last", "1"], "add --stop-at-end or --until"),
        (["changes", "mysql://u@127.0.0.1:1/", "--until", "latest"], "--stop-at-end is now"),
        (["changes", DATA, "--on-statement", "deliver", "--limit", "1"], "leave --where"),
    ],
)
def test_an_end_that_cannot_be_is_refused(words, reason, capsys):
    assert main(words) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line
