"""No name in the code is a word that the glossary replaces."""

import re
from pathlib import Path

import replica_client

PACKAGE = Path(replica_client.__file__).parent
# Texts and comments, which may say such a word in its ordinary sense.
TEXTS = re.compile(r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*')
NAMES = re.compile(
    r"(?:\b|_)(lanes?|trails?|spans?|lea(?:f|fs)|folds?|folded|places?|placed|workshops?|notes|sound|told|held|takers?"
    r"|made_up|hands)(?:\b|_)|[a-z](?:Lanes?|Trail|Spans?|Leaf|Fold|Place|Takers?)\b|\b(?:Lane|Trail|Span|Leaf|Fold|Place)\b"
)
# Names of Python's own, and of OpenTelemetry's.
ALLOWED = {
    *("match.span(", "__notes__"),
    *(".start_span(", ".add_span_processor(", "BatchSpanProcessor", "OTLPSpanExporter"),
}


def test_names_are_those_of_the_glossary() -> None:
    found = []
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pxd"), *PACKAGE.rglob("*.h")]:
        if NAMES.search(path.stem):
            found.append(path.name)
        text = path.read_text(encoding="utf-8")
        code = text if path.suffix == ".h" else TEXTS.sub("", text)
        if path.suffix == ".h":
            code = re.sub(r"/\*[\s\S]*?\*/|//[^\n]*", "", code)
        for allowed in ALLOWED:
            code = code.replace(allowed, "")
        found += [f"{path.relative_to(PACKAGE)}: {one[0]}" for one in NAMES.finditer(code)]
    assert not found
