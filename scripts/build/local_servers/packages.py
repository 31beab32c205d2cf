"""Debian packages without installing them: apt resolves and downloads, dpkg-deb unpacks.

A server needs its program, its libraries and its data files, not a Debian that was configured. So
nothing runs inside the root, nothing is mounted, and no step needs to be root.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from local_servers import debian
from local_servers.commands import run, search_path
from local_servers.faults import ServersError

UPDATE_TIMEOUT = 300.0
DOWNLOAD_TIMEOUT = 900.0
UNPACK_TIMEOUT = 300.0

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MERGED = ("bin", "sbin", "lib", "lib64")
_LEFT_OUT = ("./usr/share/doc", "./usr/share/locale", "./usr/share/man", "./usr/share/info")
# What a container's entry point runs, beside the server.
_SHELL = (
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "grep", "hostname", "libc-bin"),
    *("mawk", "sed"),
)
_PASSWD = "mysql:x:101:101:MySQL Server:/nonexistent:/usr/sbin/nologin\n"
_GROUP = "mysql:x:101:\n"
_INSTALL = ("install", "--no-install-recommends")


class Archive:
    """The packages of one Debian suite, with lists of its own.

    Args:
        suite: its name.
        directory: where lists and downloads are kept meanwhile; empty.
    """

    def __init__(self, suite: str, directory: Path) -> None:
        self._suite = suite
        self._directory = directory
        self._doing = f"downloading packages of Debian {suite}"
        for part in ("lists/partial", "archives/partial"):
            (directory / part).mkdir(parents=True)
        (directory / "status").touch()
        (directory / "sources.list").write_text(self._source())

    def _source(self) -> str:
        for program, package in (("apt-get", "apt"), ("dpkg-deb", "dpkg")):
            if shutil.which(program, path=search_path()) is None:
                raise ServersError(f"{self._doing} needs {program} (the package {package})")
        mirror = debian.mirror()
        if not _KEYRING.exists():
            debian.install(["debian-archive-keyring"], doing=self._doing)
        if mirror is None:
            mirror = debian.default_mirror()
        return f"deb [signed-by={_KEYRING}] {mirror} {self._suite} main\n"

    def _apt(self, *arguments: str, timeout: float, cwd: Path | None = None) -> str:
        here = self._directory
        settings = {
            "Dir::State": here,
            "Dir::State::lists": here / "lists",
            "Dir::State::status": here / "status",
            "Dir::State::extended_states": here / "extended_states",
            "Dir::Cache": here,
            "Dir::Cache::archives": here / "archives",
            "Dir::Cache::pkgcache": here / "packages.bin",
            "Dir::Cache::srcpkgcache": here / "sources.bin",
            "Dir::Etc::SourceList": here / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "Acquire::Languages": "none",
            "APT::Get::List-Cleanup": "false",
            # As root apt would download as another user, who may not write here.
            "APT::Sandbox::User": "root",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        command = ("apt-get", "-q", "-y", *options, *arguments)
        return run(command, doing=self._doing, timeout=timeout, cwd=cwd)

    def update(self) -> None:
        """Read the suite's list of packages."""
        self._apt("update", timeout=UPDATE_TIMEOUT)

    def size(self, packages: Iterable[str]) -> tuple[int, int]:
        """How many files :meth:`download` fetches for packages that need others, and their bytes."""
        listed = self._apt(*_INSTALL, "--print-uris", *packages, timeout=UPDATE_TIMEOUT)
        files = [line.split() for line in listed.splitlines() if line.startswith("'")]
        return len(files), sum(int(fields[2]) for fields in files)

    def download(self, packages: Iterable[str], alone: str | None = None) -> list[Path]:
        """Download packages and all that they depend on.

        Args:
            packages: their names.
            alone: a package that is taken without what it depends on.

        Returns:
            the package files.

        Raises:
            ServersError: there is no such package, or the mirror does not answer.
        """
        self._apt(*_INSTALL, "--download-only", *packages, timeout=DOWNLOAD_TIMEOUT)
        archives = self._directory / "archives"
        if alone is not None:
            self._apt("download", alone, timeout=DOWNLOAD_TIMEOUT, cwd=archives)
        return sorted(archives.glob("*.deb"))


def unpack(files: Iterable[Path], root: Path, *, doing: str) -> None:
    """Lay the files of packages into a root, with one /usr as Debian has it."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for file in files:
        _unpack_one(file, root, doing)


def _unpack_one(file: Path, root: Path, doing: str) -> None:
    take = ["tar", "--extract", "--keep-directory-symlink", "--no-same-owner", "-C", str(root)]
    take += [f"--exclude={path}/*" for path in _LEFT_OUT]
    environment = {**os.environ, "PATH": search_path()}
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as reading:
        try:
            taken = subprocess.run(
                take,
                stdin=reading.stdout,
                capture_output=True,
                timeout=UNPACK_TIMEOUT,
                env=environment,
                check=False,
            )
        except BaseException:
            reading.kill()
            raise
    if taken.returncode or reading.returncode:
        said = taken.stderr.decode(errors="replace").strip().splitlines()
        raise ServersError(
            f"{doing}: unpacking {file.name}: {said[-1] if said else 'dpkg-deb failed'}"
        )


def build_root(
    suite: str,
    packages: Iterable[str],
    root: Path,
    *,
    alone: str | None,
    say: Callable[[str], None],
) -> None:
    """Make a directory that holds packages of a suite, what they need, and a shell.

    Args:
        suite: a Debian suite.
        packages: names of packages.
        root: the new directory.
        alone: a package that is taken without what it depends on.
        say: takes a line for whoever waits.

    Raises:
        ServersError: no mirror, no such package, or no room.
    """
    wanted = (*packages, *_SHELL)
    root.mkdir()
    with tempfile.TemporaryDirectory(prefix="packages-", dir=root.parent) as directory:
        archive = Archive(suite, Path(directory))
        say(f"reading the package list of Debian {suite}")
        archive.update()
        count, size = archive.size(wanted)
        say(f"downloading {count} packages, {size / 1e6:.0f} MB")
        files = archive.download(wanted, alone)
        say(f"unpacking {len(files)} packages")
        unpack(files, root, doing=f"unpacking packages of Debian {suite}")
    _accounts(root)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


def _accounts(root: Path) -> None:
    """The accounts that base-passwd's own script would make, and the server's, for containers."""
    for name, own in (("passwd", _PASSWD), ("group", _GROUP)):
        text = (root / "usr/share/base-passwd" / f"{name}.master").read_text()
        (root / "etc" / name).write_text(text.replace(":*:", ":x:") + own)
