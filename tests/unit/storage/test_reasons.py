"""What libraries say of a store, in our errors: one line, without colours and secrets."""

import re
from pathlib import Path

import pytest

from replica_client import lake
from replica_client.errors import StorageError
from replica_client.storage.location import location, reason_of

WHERE = location("s3://bucket/lake", {"aws_secret_access_key": "s3cr/et+1"})
BODY = (
    '<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Message>The signature we calculated '
    "does not match</Message><AWSAccessKeyId>AKIAQUOTED</AWSAccessKeyId><StringToSign>AWS4 x</StringToSign></Error>"
)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (
            OSError("Generic S3 error \x1b[31m↳\x1b[0m HTTP error \x1b[31m↳\x1b[0m end of file"),
            "Generic S3 error: HTTP error: end of file",
        ),
        (OSError(28, "No space left on device", "part-1"), "No space left on device"),
        (
            OSError(
                "error sending request for url (https://a.blob/c/x?sv=1&sig=SECRET): timed out"
            ),
            "error sending request for url (https://a.blob/c/x timed out",
        ),
        (OSError("proxy http://me:pass@proxy:1/ refused"), "proxy http://proxy:1/ refused"),
        (OSError("signed with s3cr/et+1\n\twrongly"), "signed with … wrongly"),
        (
            OSError(f"403, status code: 403 Forbidden, body: {BODY}"),
            "SignatureDoesNotMatch, 403 Forbidden, The signature we calculated does not match",
        ),
        (StorageError("cannot read s3://bucket/lake: gone"), "cannot read s3://bucket/lake: gone"),
        (ValueError("x" * 5000), "x" * 300),
    ],
)
def test_one_plain_line(error, wanted):
    assert reason_of(error, WHERE) == wanted


def test_no_module_of_the_lake_quotes_a_library_as_it_is():
    quoted = re.compile(r"""join\(str\(error\)""")
    directory = Path(lake.__file__).parent
    paths = [path for path in directory.rglob("*.py") if "spark" not in path.parts]
    assert not [path for path in paths if quoted.search(path.read_text())]
