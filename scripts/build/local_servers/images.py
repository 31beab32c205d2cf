"""Container images of the servers, made from their roots."""

import hashlib
import subprocess
from pathlib import Path

from local_servers import docker_daemon, layout
from local_servers.commands import run
from local_servers.debian import need_root
from local_servers.faults import ServersError
from local_servers.recipes import Recipe
from local_servers.roots import manifest_path, need_root_of, say

ENTRYPOINT = Path(__file__).with_name("container-entrypoint")
LABEL = "replica-client-test.fingerprint"
IMPORT_TIMEOUT = 600.0

_LEFT_OUT = (
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./opt/mysql/binlog",
    "./usr/share/doc/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/lib/mysql/*",
)


def build(recipe: Recipe) -> str:
    """Makes sure that the image of a server's root is there and current; returns what was done."""
    need_root_of(recipe)
    docker_daemon.start()
    fingerprint = _fingerprint(recipe)
    if _label(recipe.image) == fingerprint:
        return "is current"
    need_root(f"building the image {recipe.image}")
    say(f"{recipe.name}: building the image {recipe.image}")
    changes = [*_changes(recipe), f"LABEL {LABEL}={fingerprint}"]
    pack = ["tar", "--create", "--one-file-system", "--owner=0", "--group=0"]
    pack += [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    pack += ["-C", str(layout.root_dir(recipe.name)), "."]
    pack += ["-C", str(ENTRYPOINT.parent), ENTRYPOINT.name]
    take = ["docker", "import"]
    for change in changes:
        take += ["--change", change]
    take += ["-", recipe.image]
    _pipe(pack, take, doing=f"building the image {recipe.image}")
    return "built"


def _changes(recipe: Recipe) -> list[str]:
    kind = "packaged" if recipe.npm is not None else recipe.flavor
    changes = [
        f'ENTRYPOINT ["/{ENTRYPOINT.name}"]',
        f"ENV TEST_SERVER_PROGRAM=/{recipe.server}",
        f"ENV TEST_SERVER_KIND={kind}",
        "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "EXPOSE 3306",
    ]
    if recipe.npm is not None:
        changes.append(f"ENV TEST_SERVER_BASEDIR=/{recipe.basedir}")
        changes.append(f"ENV LD_LIBRARY_PATH=/{recipe.basedir}")
    return changes


def _fingerprint(recipe: Recipe) -> str:
    parts = (
        manifest_path(recipe).read_bytes(),
        ENTRYPOINT.read_bytes(),
        repr((_changes(recipe), _LEFT_OUT)).encode(),
    )
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _label(image: str) -> str | None:
    command = ("docker", "image", "inspect", "--format", f'{{{{index .Config.Labels "{LABEL}"}}}}')
    try:
        return run((*command, image), doing=f"looking for the image {image}", timeout=60).strip()
    except ServersError:
        return None


def _pipe(source: list[str], target: list[str], *, doing: str) -> None:
    with subprocess.Popen(source, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as packing:
        try:
            taken = subprocess.run(
                target,
                stdin=packing.stdout,
                capture_output=True,
                timeout=IMPORT_TIMEOUT,
                check=False,
            )
        except BaseException:
            packing.kill()
            raise
        packing_said = packing.stderr.read().decode(errors="replace") if packing.stderr else ""
    if taken.returncode:
        said = taken.stderr.decode(errors="replace").strip().splitlines()
        raise ServersError(f"{doing}: {said[-1] if said else 'docker import failed'}")
    if packing.returncode:
        said = packing_said.strip().splitlines()
        raise ServersError(f"{doing}: {said[-1] if said else 'tar failed'}")
