"""A configuration file: what is taken, and what is refused with line and key."""

from __future__ import annotations

import itertools
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from replica_client.errors import ConfigError
from replica_client.service.checking import check
from replica_client.service.config_file import read_config
from replica_client.service.configuration import bytes_of
from replica_client.service.delivery import MOST_SECONDS, limits_of
from replica_client.service.examples import EXAMPLE
from replica_client.service.source_access import hosts_of, stream_options
from replica_client.storage.toml_file import key_lines, line_of

GOOD = """\
[daemon]
state = "there"

[[source]]
name = "shop"
url = "mysql://repl@db1/"
tables = [
  "shop.*",   # with a comment that has a ] in it
]

[[source.sink]]
name = "lines"
type = "file"
path = "out"

[[source.sink]]
type = "stdout"
batch_bytes = "2m"

[[source]]
name = "other"
url = "mysql://repl@db2/"
[[source.sink]]
type = "stdout"
"""


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: str) -> Path:
        path = tmp_path / "daemon.toml"
        path.write_text(text)
        return path

    return _write


def test_routes_are_each_sink_of_each_source(write):
    config = read_config(write(GOOD), {})
    assert [route.name for route in config.routes] == ["shop.lines", "shop.stdout", "other.stdout"]
    assert config.routes[0].options == {"path": "out"}
    assert config.routes[1].sink.batch_bytes == "2m"
    assert config.state == config.file.parent / "there"


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("state =", "stat =", 2, "daemon.stat: no such key; did you mean 'state'?"),
        ("tables =", "table =", 7, "source.table: no such key; did you mean 'tables'?"),
        (
            'url = "mysql://repl@db2/"',
            "shared_connection = true",
            22,
            "source.shared_connection: this key was removed",
        ),
        (
            'url = "mysql://repl@db2/"',
            "spool_bytes = 5",
            22,
            "source.spool_bytes: this key was removed",
        ),
        (
            'batch_bytes = "2m"',
            'batch_bytes = "2x"',
            18,
            "source.sink.batch_bytes: '2x' is not a size",
        ),
        ('batch_bytes = "2m"', "batch_rows = 0", 18, "source.sink.batch_rows: expected a whole"),
        ('batch_bytes = "2m"', "batch_rows = 'x'", 18, "source.sink.batch_rows: expected a whole"),
        ('name = "other"', 'name = "shop"', 21, "source.name: 'shop' is there twice"),
        ('name = "lines"', 'name = "a/b"', 12, "source.sink.name: expected text matching"),
        ('name = "lines"', 'name = "stdout"', 16, "source.sink.name: 'stdout' is there twice"),
        ('url = "mysql://repl@db2/"', "", 20, "source.url: this key is missing; give it"),
        ('[[source]]\nname = "other"', '[sources]\nname = "other"', 20, "sources: no such key"),
        ("[daemon]", "[daemon]\nlog_level = 'loud'", 2, "daemon.log_level: invalid enum value"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(write, old, new, line, text):
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        read_config(write(GOOD.replace(old, new)), {})
    assert f"daemon.toml, line {line}: {text}" in str(caught.value)


def test_a_text_that_is_not_toml_names_the_line(write):
    with pytest.raises(ConfigError, match="line 3"):
        read_config(write("[daemon]\nstate = 'x'\nstate 5\n"), {})


@pytest.mark.parametrize(
    "text", ["", "[daemon]\n", "source = 5\n", '[[source]]\nname = "a"\nurl = "mysql://x/"\n']
)
def test_a_configuration_without_work_is_refused(write, text):
    with pytest.raises(ConfigError):
        read_config(write(text), {})


def test_a_password_is_in_no_repr(write):
    text = GOOD.replace("repl@db1", "repl:hunter2@db1").replace(
        'path = "out"', 'path = "out"\npassword = "hunter2"'
    )
    config = read_config(write(text), {})
    assert "hunter2" not in repr(config)


def test_the_environment_overrides_keys(write):
    environment = {
        "REPLICA_CLIENT__DAEMON__LISTEN": "0.0.0.0:80",
        "REPLICA_CLIENT__SOURCE__SHOP__TABLES": '["a.*"]',
        "REPLICA_CLIENT__SOURCE__SHOP__SINK__LINES__BATCH_ROWS": "7",
        "REPLICA_CLIENT__SOURCE__OTHER__SINK__STDOUT__FORMAT": "native",
        "REPLICA_CLIENT_USER": "somebody",
    }
    config = read_config(write(GOOD), environment)
    assert config.daemon.listen == "0.0.0.0:80"
    assert config.sources[0].options["tables"] == ["a.*"]
    assert config.routes[0].sink.batch_rows == 7
    assert config.routes[2].options == {"format": "native"}


def test_an_override_of_what_is_not_there_is_refused(write):
    with pytest.raises(ConfigError, match="REPLICA_CLIENT__SOURCE__NONE__URL: there is no source"):
        read_config(write(GOOD), {"REPLICA_CLIENT__SOURCE__NONE__URL": "x"})
    with pytest.raises(ConfigError, match="no such key"):
        read_config(write(GOOD), {"REPLICA_CLIENT__DAEMON__LISTENS": "x"})


@pytest.mark.parametrize(
    ("given", "seconds", "adaptive"), [(None, MOST_SECONDS, True), (2.0, 2.0, False)]
)
def test_batches_adapt_unless_their_seconds_are_given(write, given, seconds, adaptive):
    route = read_config(write(GOOD), {}).routes[0]
    limits = limits_of(replace(route, sink=structs.replace(route.sink, batch_seconds=given)))
    assert (limits.seconds, limits.adaptive) == (seconds, adaptive)


def test_the_example_is_read_and_its_comments_are_keys(write):
    config = read_config(write(EXAMPLE), {})
    assert config.routes[0].name == "shop.lines"
    # Every key that is commented out is one that may stand there.
    lines = []
    for line in EXAMPLE.splitlines():
        bare = line.removeprefix("# ")
        key = bare.partition(" = ")[0]
        lines.append(bare if bare != line and key.isidentifier() else line)
    text = "\n".join(lines).replace('url = "mysql://replica_client', '# url = "mysql://replica')
    text = text.replace('url = "mysql://db1/?option', '# url = "mysql://db1/?option')
    text = text.replace('password = "file:/run/secrets/store"', "")
    uncommented = read_config(write(text), {})
    assert uncommented.routes[0].sink == config.routes[0].sink.__class__(
        **{
            **{key: getattr(config.routes[0].sink, key) for key in ("name", "type")},
            "batch_rows": 10000,
            "batch_seconds": 0.5,
            "batch_bytes": "8m",
            "dead_letters": "state/shop.lines.dead-letters.jsonl",
        }
    )
    assert uncommented.daemon == config.daemon
    assert uncommented.sources[0].options["heartbeat_period"] == 10


def test_lines_of_keys():
    text = (
        "a = 1\n"
        'b = """\n[x]\nc = 2\n"""\n'
        "[t.u]\n"
        "d.e = [ 1,\n  2 ] # ]\n"
        "f = 3\n"
        "[[v]]\n[[v]]\n"
        "'g h' = {x = 1, y = '}'}\n"
        "[v.w]\n"
        "i = '''a'''\n"
    )
    tomllib.loads(text)
    lines = key_lines(text)
    assert lines == {
        ("a",): 1,
        ("b",): 2,
        ("t",): 6,
        ("t", "u"): 6,
        ("t", "u", "d"): 7,
        ("t", "u", "d", "e"): 7,
        ("t", "u", "f"): 9,
        ("v",): 10,
        ("v", 0): 10,
        ("v", 1): 11,
        ("v", 1, "g h"): 12,
        ("v", 1, "w"): 13,
        ("v", 1, "w", "i"): 14,
    }
    assert line_of(lines, ("v", 1, "g h", "x")) == 12
    assert line_of(lines, ("nothing",)) is None


@pytest.mark.parametrize(
    ("value", "size"), [(5, 5), ("64k", 65536), ("16 MiB", 16 << 20), ("2G", 2 << 30), ("7b", 7)]
)
def test_sizes(value, size):
    assert bytes_of("x", value) == size


@pytest.mark.parametrize("value", [0, "0", "-1", "5 apples", ""])
def test_sizes_that_are_none(value):
    with pytest.raises(ConfigError):
        bytes_of("x", value)


def test_the_fingerprint_of_a_sources_certificate(configure):
    fingerprint = f"sha256:{'ab' * 32}"
    config = read_config(configure(source={"tls_fingerprint": fingerprint}), {})
    [host] = hosts_of(config.sources[0], config.directory)
    assert host.tls.fingerprint == fingerprint
    config = read_config(configure(source={"tls_fingerprint": "ab"}), {})
    with pytest.raises(ConfigError, match="tls_fingerprint must be"):
        hosts_of(config.sources[0], config.directory)


def test_each_sink_of_a_source_has_a_server_id_of_its_own(write):
    config = read_config(write(GOOD.replace('name = "shop"', 'name = "shop"\nserver_id = 77')), {})
    ids = [stream_options(route, mirror=False).server_id for route in config.routes]
    assert ids == [77, 78, None]


MISTAKES = [
    # What is written instead of the sink's keys, the line, and what the message says.
    ("tables = []", 13, "tables: the list is empty"),
    ('tables = ["shop"]', 13, "'shop' names no table; write DATABASE.TABLE"),
    ('tables = [".t"]', 13, "names no table"),
    ('tables = ["shop."]', 13, "names no table"),
    ('tables = ["^shop.t"]', 13, "is a regular expression; write a pattern"),
    ('tables = ["shop..*"]', 13, "is a regular expression"),
    ('tables = ["shop.(a|b)"]', 13, "is a regular expression"),
    ('tables = ["shop.[a-z]*"]', 13, "is a regular expression"),
    ("tables = ['shop\\.t']", 13, "is a regular expression"),
    ('tables = ["shop.t.+"]', 13, "is a regular expression"),
    ('exclude = ["shop"]', 13, "exclude: 'shop' names no table"),
    ('exclude = ["shop..*"]', 13, "is a regular expression"),
    (
        'tables = ["shop.a"]\nexclude = ["shop.*"]',
        13,
        "'shop.a' matches nothing: 'shop.*' of exclude",
    ),
    ('tables = ["shop.*"]\nexclude = ["*.*"]', 13, "matches nothing"),
    ("batch_rows = -1", 13, "batch_rows: expected"),
    ('batch_seconds = "soon"', 13, "batch_seconds: expected"),
    ("batch_bytes = 0", 13, "batch_bytes: give at least 1 byte"),
    ("retry_seconds = 0", 13, "retry_seconds: expected"),
    ("commit_timeout = 0", 13, "commit_timeout: expected"),
    ('on_poison = "skip"', 13, "on_poison: invalid"),
    ('snapshot = "yes"', 13, "snapshot: expected"),
    ("snapshot_rows = 0", 13, "snapshot_rows: expected"),
    ('snapshot_locking = "always"', 13, "snapshot_locking: invalid"),
    ("tables = 5", 13, "tables: expected"),
]


@pytest.mark.parametrize(("keys", "line", "text"), MISTAKES)
def test_a_mistake_of_a_sink_is_named_with_its_line(write, keys, line, text):
    given = (
        '[[source]]\nname = "shop"\nurl = "mysql://repl@db1/"\n\n\n\n\n\n\n'
        f'[[source.sink]]\nname = "lines"\ntype = "stdout"\n{keys}\n'
    )
    with pytest.raises(ConfigError) as caught:
        read_config(write(given), {})
    assert f"daemon.toml, line {line}: source.sink.{keys.partition(' ')[0]}" in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("one", "two", "refused"),
    [
        ('type = "file"\npath = "out"', 'type = "file"\npath = "out"', True),
        ('type = "file"\npath = "out"', 'type = "file"\npath = "out2"', False),
        ('type = "parquet"\npath = "out"', 'type = "parquet"\npath = "out"', True),
        ('type = "sqlite"\npath = "m"', 'type = "sqlite"\npath = "m"', True),
        (
            'type = "sqlite"\npath = "m"\ntables = ["a.*"]',
            'type = "sqlite"\npath = "m"\ntables = ["b.*"]',
            False,
        ),
        (
            'type = "sqlite"\npath = "m"\ntables = ["a.t*"]',
            'type = "sqlite"\npath = "m"\ntables = ["?.*1"]',
            True,
        ),
        (
            'type = "redis"\nurl = "redis://h"\ntables = ["a.*"]\nexclude = ["a.t"]',
            'type = "redis"\nurl = "redis://h"\ntables = ["a.t"]',
            False,
        ),
        (
            'type = "kafka"\nbootstrap_servers = "b:9092"\ntables = ["a.*"]',
            'type = "kafka"\nbootstrap_servers = "b:9092"\ntables = ["b.*"]',
            True,
        ),
    ],
)
def test_two_sinks_of_one_place_are_refused_where_they_meet(write, one, two, refused):
    given = (
        f'[[source]]\nname = "shop"\nurl = "mysql://repl@db1/"\n[[source.sink]]\nname = "one"\n{one}\n'
        f'[[source.sink]]\nname = "two"\n{two}\n'
    )
    if not refused:
        assert len(read_config(write(given), {}).routes) == 2
        return
    with pytest.raises(
        ConfigError, match=r"line \d+: source.sink: writes to the same place as shop.one"
    ):
        read_config(write(given), {})


_HEADS = {
    "daemon": "[daemon]",
    "store": "[store]",
    "source": '[[source]]\nname = "shop"',
    "sink": '[[source.sink]]\nname = "lines"',
}
_NEEDED = {"source": 'url = "mysql://repl@db1/"', "sink": 'type = "stdout"'}
# Of a table: what is written there, and what the message says: the key, and what to do.
COMPOSED = [
    ("daemon", 'listen = "nowhere"', "listen: 'nowhere' is not an address; write 127.0.0.1:9190"),
    ("daemon", 'otlp = "x"', "otlp must be a URL, such as http"),
    ("daemon", 'stat = "x"', "stat: no such key; did you mean 'state'?"),
    ("daemon", 'log_level = "loud"', "log_level: invalid enum value 'loud'; there are debug"),
    ("store", 'type = "mysql"', "url: missing; give mysql://user@host/database"),
    ("store", 'type = "nosuch"', "type: invalid enum value 'nosuch'; there are file, mysql"),
    ("store", 'url = "mysql://h/x"', "url: a store of type file has none"),
    ("store", 'path = "daemon.toml/x"', "path: "),
    ("source", 'url = "postgres://db1/"', "URL begins with mysql:// or mariadb://"),
    ("source", 'url = "mysql://repl@db1:99999/"', "URL's host or port cannot be read: write mysql://"),
    ("source", "url = 5", "url: expected text"),
    ("source", 'start = "yesterday"', "start 'yesterday' is not understood; give earliest, latest"),
    ("source", 'start = "2999-01-01"', "start: 2999-01-01 00:00:00+00:00 is in the future; give"),
    ("source", 'password_file = "x"', "password_file: no such key; did you mean 'password'?"),
    ("source", 'password = "file:nosuch"', "nosuch"),
    ("source", 'tls = "yes"', "tls: 'yes': give \"disabled\""),
    ("source", "server_id = 0", "server_id: 0: give a number"),
    ("source", "heartbeat = -1", "heartbeat: -1: give seconds, more than 0"),
    ("source", 'record_losses = ["nosuch"]', "record_losses: "),
    ("source", 'transform = [{tables = ["a.b"], nosuch = 1}]', "transform 1: nosuch: not known; there are"),
    ("source", 'tables = ["^shop.t"]', "tables: '^shop.t' is a regular expression; write a pattern"),
    ("source", "tables = []", "tables: the list is empty: it selects no table; leave it out"),
    ("sink", 'type = "nosuch"', "no sink is of the type 'nosuch'; there are clickhouse"),
    ("sink", 'type = "file"', "path: this key is missing; give it"),
    ("sink", 'type = "file"\npath = "daemon.toml/x"', "path: "),
    ("sink", 'type = "file"\npath = "o"\nformat = "nosuch"', "format: 'nosuch' is not native"),
    ("sink", 'type = "kafka"\nbootstrap_servers = 5', "bootstrap_servers: expected text, got a whole number"),
    ("sink", 'type = "kafka"\nbootstrap_servers = "b"\nacks = 3', "acks: no such key; there are"),
    ("sink", 'type = "postgres"\nurl = "mysql://x/"', "url must be postgresql://user@host/database"),
    ("sink", 'type = "redis"\nurl = "x"', "url must be redis://"),
    ("sink", "batch_rows = 0", "batch_rows: expected"),
    ("sink", 'batch_bytes = "2x"', "batch_bytes: '2x' is not a size"),
    ("sink", 'on_poison = "skip"', "on_poison: invalid enum value 'skip'; there are dead-letter, stop"),
    ("sink", 'dead_letters = "daemon.toml/x/y"', "dead_letters: "),
    ("sink", 'tables = ["shop"]', "tables: 'shop' names no table; write DATABASE.TABLE"),
    ("sink", 'exclude = ["shop..*"]', "exclude: 'shop..*' is a regular expression; write a pattern"),
]  # fmt: skip


def _composed(*mistakes: tuple[str, str, str]) -> tuple[str, list[tuple[set[int], str]]]:
    """The text of a file, and of each mistake the lines where it may be named."""
    lines: list[str] = []
    found = []
    for table, head in _HEADS.items():
        own = [one for one in mistakes if one[0] == table]
        given = [line for _, keys, _ in own for line in keys.splitlines()]
        needed = _NEEDED.get(table, "")
        if needed and not any(line.startswith(needed.split(" ")[0]) for line in given):
            given.insert(0, needed)
        begin = len(lines) + 1
        lines += [*head.splitlines(), *given]
        for _, keys, text in own:
            at = lines.index(keys.splitlines()[-1], begin) + 1
            found.append(({at, begin}, text))
    return "\n".join(lines) + "\n", found


def _told(path: Path) -> list[str]:
    try:
        return [f"{one.where}: {one.what}" for one in check(read_config(path, {}))]
    except ConfigError as error:
        return [str(error)]


def _is_told(line: str, lines: set[int], text: str) -> bool:
    found = re.search(r"daemon\.toml, line (\d+): ", line)
    return found is not None and int(found[1]) in lines and text in line


@pytest.mark.parametrize("mistake", COMPOSED)
def test_each_mistake_is_one_line_with_key_line_and_remedy(write, mistake) -> None:
    pytest.importorskip("confluent_kafka" if "kafka" in mistake[1] else "msgspec")
    text, [(lines, wanted)] = _composed(mistake)
    [line] = _told(write(text))
    assert "\n" not in line
    assert _is_told(line, lines, wanted), (line, lines)


def test_pairs_of_mistakes_are_told_as_each_is(write) -> None:
    """One of them, or each in a line of its own; never another one."""
    pytest.importorskip("confluent_kafka")
    pairs = 0
    for one, two in itertools.combinations(COMPOSED, 2):
        keys = [{line.split(" ")[0] for line in keys.splitlines()} for _, keys, _ in (one, two)]
        if one[0] == two[0] and keys[0] & keys[1]:
            continue
        if (one[1], two[1]) == ('type = "mysql"', 'url = "mysql://h/x"'):
            continue  # together they are right
        pairs += 1
        text, wanted = _composed(one, two)
        told = _told(write(text))
        assert 1 <= len(told) <= 2, (text, told)
        for line in told:
            assert any(_is_told(line, *each) for each in wanted), (text, told)
    assert pairs > 500
