"""What importing the package and starting its command load: little, so that both are quick."""

import json
import subprocess
import sys

import pytest

import replica_client
from replica_client.errors import install_command

_LOADED = "import json, sys; {code}; print(json.dumps(sorted(sys.modules)))"


def loaded_by(code: str) -> set[str]:
    """The modules that are loaded after some code, in an interpreter of its own."""
    result = subprocess.run(
        [sys.executable, "-c", _LOADED.format(code=code)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(result.stdout))


def test_importing_the_package_loads_no_part_of_it() -> None:
    added = loaded_by("import replica_client") - loaded_by("pass")
    ours = {name for name in added if name.startswith("replica_client.")}
    assert ours <= {
        "replica_client._compiled",
        "replica_client._cython",
        "replica_client._version",
    }
    assert not added & {
        "asyncio",
        "aiomysql",
        "pymysql",
        "cryptography",
        "pyarrow",
        "typer",
        "rich",
    }


def test_without_the_extra_cli_one_line_says_so() -> None:
    code = (
        "import sys; sys.modules.update(typer=None, rich=None); "
        "from replica_client.cli.main import main; sys.exit(main(['events', '--help']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "replica-client: the Python package typer is not installed; "
        f"run: {install_command('cli')}\n"
    )


def test_statements_are_read_without_a_parser_of_others() -> None:
    code = "import replica_client.schema.history, replica_client.schema.ddl.columns_after"
    assert "sqlglot" not in loaded_by(code)


def test_files_need_no_network_code() -> None:
    loaded = loaded_by("import replica_client; replica_client.open_binlog")
    assert not loaded & {"aiomysql", "pymysql", "cryptography", "pyarrow", "ssl"}


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["nix"]])
def test_the_command_imports_no_subcommand_that_was_not_asked_for(words: list[str]) -> None:
    code = (
        "import os; from replica_client.cli.main import main; out = os.dup(1); "
        f"os.dup2(2, 1); main({words!r}); sys.stdout.flush(); os.dup2(out, 1)"
    )
    loaded = loaded_by(code)
    assert "replica_client.cli.changes" not in loaded
    assert not loaded & {
        "replica_client.schema.history",
        "replica_client.stream.transactions.assembler",
        "replica_client.stream.live.connect",
        "asyncio",
        "aiomysql",
        "cryptography",
        "pyarrow",
    }


def test_following_a_source_imports_no_more_than_it_did() -> None:
    code = (
        "import os; from replica_client.cli.main import main; out = os.dup(1); os.dup2(2, 1); "
        "main(['changes', 'mysql://nobody@127.0.0.1:1/']); os.dup2(out, 1)"
    )
    loaded = loaded_by(code)
    assert not loaded & {
        "pyarrow",
        "msgspec",
        "sqlite3",
        "replica_client.service.service",
        "replica_client.stream.files.binlog_file",
    }
    # Each costs about 0.7 ms of CPU. Before one is added here: can it wait until it is needed? Python's own are not
    # the same in each version.
    ours = [name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names]
    assert len(ours) <= 380


@pytest.mark.parametrize("name", replica_client.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(replica_client, name) is getattr(replica_client, name)
    assert name in dir(replica_client)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        replica_client.nothing  # noqa: B018
