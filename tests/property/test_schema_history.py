"""Laws of statements and histories."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import NotUnderstood, Unrelated
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from tests.unit.schema.tables import MARIADB, MYSQL, history_of

WORDS = (
    "CREATE ALTER DROP RENAME TABLE TABLES DATABASE IF NOT EXISTS ADD COLUMN FIRST AFTER MODIFY CHANGE "
    "CONVERT TO CHARACTER SET DEFAULT INT VARCHAR ( ) , . = ; ` ' \" /* */ /*! # -- \n a b t `c d` 'x' 10 "
    "PRIMARY KEY ENUM LIKE SELECT * FROM AS PARTITION BY ORDER SYSTEM VERSIONING CHECK UNSIGNED NULL utf8"
).split(" ")
statements = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=60), statements), st.booleans())
def test_no_text_fails(text: str, mariadb: bool) -> None:
    read_statement(text, MARIADB if mariadb else MYSQL)
    history = history_of("CREATE TABLE t (a INT, b VARCHAR(10))")
    history.run(text, MARIADB if mariadb else MYSQL, "binlog.000001", 999)
    assert SchemaHistory.from_state(history.to_state()).to_json() == history.to_json()


NAMES = st.sampled_from("abcdef")
TYPES = st.sampled_from(("INT", "CHAR(3)", "ENUM('x','y')", "TEXT", "DECIMAL(5,2) UNSIGNED"))
POSITIONS = st.one_of(st.just(""), st.just(" FIRST"), NAMES.map(" AFTER {}".format))
CLAUSES = st.one_of(
    st.builds("ADD {} {}{}".format, NAMES, TYPES, POSITIONS),
    st.builds("DROP {}".format, NAMES),
    st.builds("MODIFY {} {}{}".format, NAMES, TYPES, POSITIONS),
    st.builds("CHANGE {} {} {}{}".format, NAMES, NAMES, TYPES, POSITIONS),
    st.builds("RENAME COLUMN {} TO {}".format, NAMES, NAMES),
)


def _model(history: SchemaHistory) -> TableModel | None:
    state = history.table(("d", "t"))
    return state if isinstance(state, TableModel) else None


@settings(max_examples=300, deadline=None)
@given(st.lists(CLAUSES, max_size=8))
def test_names_stay_unique_and_a_rewound_history_comes_to_the_same(clauses: list[str]) -> None:
    history = history_of("CREATE TABLE t (a INT, b INT)")
    texts = [f"ALTER TABLE t {clause}" for clause in clauses]
    for number, text in enumerate(texts):
        history.run(text, MYSQL, "binlog.000001", 1000 + number)
    for stop in range(len(texts) + 1):
        again = SchemaHistory.from_state(history.to_state())
        again.rewind("binlog.000001", 1000 + stop)
        for number in range(stop, len(texts)):
            again.run(texts[number], MYSQL, "binlog.000001", 1000 + number)
        assert again.to_json() == history.to_json()
    model = _model(history)
    if model is not None:
        names = [name.lower() for name in model.column_names]
        assert len(names) == len(set(names))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(("/* {} */", "-- {}\n", "# {}\n")), st.text(alphabet="abc' \"`;", max_size=9)
)
def test_comments_mean_nothing(comment: str, text: str) -> None:
    sql = "ALTER {0} TABLE {0} t {0} ADD {0} c {0} INT"
    plain = read_statement(sql.format(" "), MYSQL)
    assert not isinstance(plain, (NotUnderstood, Unrelated))
    assert read_statement(sql.format(comment.format(text)), MYSQL) == plain


DATABASES = st.sampled_from(("d", "e"))
TABLES = st.builds("{}.{}".format, DATABASES, st.sampled_from("tuvwx"))
STEPS = st.one_of(
    st.builds("CREATE TABLE {} (a INT, b {})".format, TABLES, TYPES),
    st.builds("CREATE TABLE {} LIKE {}".format, TABLES, TABLES),
    st.builds("ALTER TABLE {} {}".format, TABLES, CLAUSES),
    st.builds("RENAME TABLE {} TO {}".format, TABLES, TABLES),
    st.builds("DROP TABLE {}".format, TABLES),
    st.builds("CREATE TEMPORARY TABLE {} (a INT)".format, TABLES),
    st.builds("CREATE DATABASE {}".format, DATABASES),
    st.builds("DROP DATABASE {}".format, DATABASES),
    st.builds("ALTER DATABASE {} CHARACTER SET latin1".format, DATABASES),
    st.just("not a statement"),
    st.tuples(st.sampled_from(("rewind", "roll_back", "prune")), st.integers(0, 30)),
    st.sampled_from((("forget_positions", 0), ("casefold_names", 0), ("restart", 0), ("save", 0))),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(STEPS, max_size=40), st.integers(0, 3))
def test_the_records_of_a_history_are_the_history(
    steps: list[str | tuple[str, int]], versions: int
) -> None:
    """Whatever happens to it: records give the same as the whole, and those that were given stay as they are."""
    history = history_of("CREATE TABLE t (a INT, b INT)")
    for number in range(versions * 10):  # more versions than are kept
        history.run(f"ALTER TABLE t ADD z{number} INT", MYSQL, "binlog.000001", 200 + number)
    last = history.to_parts()
    for number, step in enumerate(steps):
        offset = 1000 + 10 * number
        if isinstance(step, str):
            history.run(step, MYSQL, "binlog.000001", offset)
        elif step[0] in ("rewind", "roll_back"):
            getattr(history, step[0])("binlog.000001", offset - 10 * step[1])
        elif step[0] == "prune":
            history.prune("binlog.000001", offset - 10 * step[1])
        elif step[0] == "forget_positions":
            history.forget_positions()
        elif step[0] == "casefold_names" and history.lower_case_names is None:
            history.casefold_names(True)
        elif step[0] == "restart":
            history = SchemaHistory.from_state(list(history.to_parts()))
        else:
            parts = history.to_parts()
            again = SchemaHistory.from_state(parts).to_json()
            assert {**again, "place": ""} == {**history.to_json(), "place": ""}
            assert history.to_parts() == parts
            last = parts
    again = SchemaHistory.from_state(history.to_parts()).to_json()
    assert {**again, "place": ""} == {**history.to_json(), "place": ""}
    assert SchemaHistory.from_state(last).to_parts() == last
