"""The statements in other people's binlogs: how many are understood."""

from __future__ import annotations

from collections import Counter

from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.event import BinlogFormat, parse_server_version
from replica_client.protocol.binlog.events import FormatDescriptionEvent, StartEventV3
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import NotUnderstood, Unrelated
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.transactions.query_text import statement_text
from tests.corpus.binlogs import CORPUS, binlog_files, require_corpus

GOAL = 0.99


def test_share_of_statements_that_are_understood() -> None:
    require_corpus()
    kinds: Counter[str] = Counter()
    unknown: list[str] = []
    for name in binlog_files():
        reader = open_binlog(CORPUS / name)
        try:
            layout = BinlogFormat()
            for event in reader.events():
                body = event.body
                if isinstance(body, (FormatDescriptionEvent, StartEventV3)):
                    layout = body.format
                if not isinstance(body, QueryEvent):
                    continue
                version = parse_server_version(layout.server_version)
                context = StatementContext.of_query(body, layout.flavor, version)
                text = statement_text(body.query, body.status.character_set_client)
                meaning = read_statement(text, context)
                kinds[type(meaning).__name__] += 1
                if isinstance(meaning, NotUnderstood):
                    unknown.append(f"{name}: {text[:120]!r}: {meaning.reason}")
        except ReplicaClientError:
            continue  # a file that is broken on purpose; its events before that count
    changing = sum(kinds.values()) - kinds[Unrelated.__name__]
    understood = changing - kinds[NotUnderstood.__name__]
    print(f"{understood} of {changing} DDL statements understood; {dict(kinds)}")
    assert changing > 200
    assert understood / changing > GOAL, unknown
