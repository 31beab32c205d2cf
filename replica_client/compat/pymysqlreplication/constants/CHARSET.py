"""Character sets and collations by id and by name."""

from __future__ import annotations

from replica_client.compat.pymysqlreplication.constants import collation_names
from replica_client.protocol.codec.charsets import charset_of
from replica_client.protocol.constants.client_server import CHARSET_BY_COLLATION_ID

_ENCODINGS = {"utf8mb4": "utf8", "utf8mb3": "utf8", "latin1": "cp1252"}


class Charset:
    """A collation and its character set.

    Attributes:
        id: the collation's number.
        name: of the character set.
        collation: the collation's name.
        is_default: whether it is the character set's default collation.
        dbms: ``mysql`` or ``mariadb``.
    """

    def __init__(
        self, id: int, name: str, collation: str, is_default: bool = False, dbms: str = "mysql"
    ) -> None:
        self.id, self.name, self.collation = id, name, collation
        self.is_default = is_default
        self.dbms = dbms

    def __repr__(self) -> str:
        return f"Charset(id={self.id}, name={self.name!r}, collation={self.collation!r})"

    @property
    def encoding(self) -> str:
        """The name of Python's codec."""
        return _ENCODINGS.get(self.name, self.name)

    @property
    def is_binary(self) -> bool:
        """Whether values are bytes."""
        return self.name == "binary"


class Charsets:
    """The collations of both servers."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[int, Charset]] = {"mysql": {}, "mariadb": {}}
        self._by_name: dict[str, dict[str, Charset]] = {"mysql": {}, "mariadb": {}}

    def add(self, _charset: Charset) -> None:
        """Take a collation into the table."""
        self._by_id[_charset.dbms][_charset.id] = _charset
        if _charset.is_default:
            self._by_name[_charset.dbms][_charset.name] = _charset

    def by_id(self, id: int, dbms: str = "mysql") -> Charset | None:
        """Return the collation with a number."""
        found = self._by_id[dbms].get(id)
        if found is None and dbms == "mariadb" and id in CHARSET_BY_COLLATION_ID and id >= 2048:
            name = charset_of(id).name
            found = Charset(id, name, f"{name}_uca1400_{id}", dbms=dbms)
        return found

    def by_name(self, name: str, dbms: str = "mysql") -> Charset | None:
        """Return the default collation of a character set."""
        name = name.lower()
        return self._by_name[dbms].get("utf8mb3" if name == "utf8" else name)


charsets = Charsets()
charset_by_id = charsets.by_id
charset_by_name = charsets.by_name


def _fill() -> None:
    for text, kinds in (
        (collation_names.MYSQL, ("mysql", "mariadb")),
        (collation_names.MARIADB, ("mariadb",)),
    ):
        for entry in text.split():
            number, _, name = entry.rstrip("*").partition(":")
            for dbms in kinds:
                if dbms == "mariadb" and int(number) in collation_names.MYSQL_ONLY:
                    continue
                charset = CHARSET_BY_COLLATION_ID[int(number)]
                charsets.add(Charset(int(number), charset, name, entry.endswith("*"), dbms))


_fill()
