"""Running a program out of a root without chroot: through that root's own loader and libraries."""

import platform
from pathlib import Path

from local_servers import layout
from local_servers.commands import run
from local_servers.faults import ServersError
from local_servers.recipes import Recipe

_LOADERS = {
    "x86_64": ("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "aarch64": ("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}


def program_command(recipe: Recipe, program: str) -> list[str]:
    """The start of a command line that runs `program` (a path inside the root)."""
    root = layout.root_dir(recipe.name)
    try:
        triplet, loader = _LOADERS[platform.machine()]
    except KeyError:
        raise ServersError(f"no servers are known for the processor {platform.machine()}") from None
    libraries = root / "usr/lib" / triplet
    path = ":".join(
        str(directory)
        for directory in (root / recipe.basedir, libraries, root / "usr/lib/mysql/private")
    )
    return [str(libraries / loader), "--library-path", path, str(root / program)]


def server_command(recipe: Recipe) -> list[str]:
    """The server's program with the options that tell it where its own files are."""
    root = layout.root_dir(recipe.name)
    return [
        *program_command(recipe, recipe.server),
        "--no-defaults",
        f"--basedir={root / recipe.basedir}",
        f"--plugin-dir={root / recipe.plugins}",
        f"--lc-messages-dir={root / recipe.share}",
        f"--character-sets-dir={root / recipe.share / 'charsets'}",
    ]


def tool_path(recipe: Recipe, tool: str) -> str:
    """The path inside the root of a client program such as mysqlbinlog."""
    path = f"{recipe.tools}/{tool}"
    if not (layout.root_dir(recipe.name) / path).is_file():
        tools = layout.root_dir(recipe.name) / recipe.tools
        there = sorted(Path(tool).name for tool in tools.glob("m[ya]*") if tool.is_file())
        raise ServersError(
            f"{recipe.name} has no program {tool}; it has {', '.join(there) or 'none'}"
        )
    return path


def version_text(recipe: Recipe) -> str:
    """What the server's program says its version is, e.g. `9.7.4-2`."""
    said = run(
        [*program_command(recipe, recipe.server), "--no-defaults", "--version"],
        doing=f"asking {recipe.name} for its version",
        timeout=60,
    )
    _, found, version = said.partition("Ver ")
    if not found:
        raise ServersError(f"{recipe.name} does not say its version but {said.strip()[:80]!r}")
    return version.split()[0]
