"""The files of a relay as one sequence that grows."""

from __future__ import annotations

from replica_client.errors import BinlogFormatError
from replica_client.server.relay.epochs import Epochs
from replica_client.server.served_library import BinlogLibrary


class RelayLibrary(BinlogLibrary):
    """All files of all epochs, oldest first; empty until the first file has its head.

    Args:
        epochs: the directories.
    """

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        super().__init__(())

    def _open(self) -> None:
        self.refresh()

    def tell_gtid_mode(self, on: bool) -> None:
        """What the source says; a file without a transaction does not tell."""
        self.gtid_mode = on

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to serve yet."""
        return not self.files

    def grow(self, name: str) -> bool:
        """Look for what was appended to the newest file, cheaply, and tell who waits for it.

        Args:
            name: of the source's file that was appended to.

        Returns:
            Whether that was the newest file that is served; else :meth:`refresh` has to look for new ones.
        """
        epoch = self._epochs.current
        if epoch is None or not self.files or self.files[-1].name != epoch.served_name(name):
            return False
        if self.files[-1].grow():
            self._wake()
        return True

    def refresh(self) -> bool:
        """Look for what was appended and for new files; returns whether there is any."""
        changed = False
        if self.files:
            changed = self.files[-1].grow()
        newest = self.files[-1] if self.files else None
        for epoch in self._epochs.all:
            if newest is not None and epoch.number < newest.epoch:
                continue
            for name in epoch.file_names():
                if newest is not None and epoch.number == newest.epoch:
                    known = int(newest.name.rpartition(".")[2])
                    if int(name.rpartition(".")[2]) <= known:
                        continue
                try:
                    file = epoch.served(name)
                except BinlogFormatError:
                    break  # its head is not written yet
                if self.files:
                    self.files[-1].grow()  # nothing comes to it any more
                self.files.append(file)
                changed = True
        if changed:
            self._wake()
        return changed

    def end_epoch(self) -> None:
        """The newest epoch is over: cut what its last file has behind the last whole transaction."""
        epoch = self._epochs.all[-2]
        last = self.files[-1] if self.files else None
        if last is not None and last.epoch == epoch.number and epoch.end is not None:
            last.cut(epoch.end[1])
