"""What can go wrong: one class for each kind, all of them a `WirelensError`.

The texts are those of the command: what was seen, what was wanted, what to try.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wirelens.running import Run


class WirelensError(Exception):
    """Something that was asked for could not be done."""


class CaptureNotFoundError(WirelensError, FileNotFoundError):
    """There is nothing under this name."""


class CaptureUnreadableError(WirelensError, OSError):
    """The system refuses to hand the capture out."""


class NotACaptureError(WirelensError, ValueError):
    """A file is something else, its first header is wrong, or a folder holds no capture."""


class EmptyCaptureError(NotACaptureError):
    """There is a file, and no byte in it."""


class FilterError(WirelensError, ValueError):
    """Libpcap refuses the filter, for the reason it gives."""


class FilterUnavailableError(WirelensError, RuntimeError):
    """A filter was given, and libpcap is not installed."""


class OptionError(WirelensError, ValueError):
    """An argument cannot mean what was given."""


class OutputError(WirelensError, OSError):
    """A file cannot be written: no such folder, a full disk, another run that writes it."""


class OutputExistsError(OutputError, FileExistsError):
    """The file to be written is there already."""


class TraceError(WirelensError, ValueError):
    """A file is no trace of an L4S network, or not a whole one."""


class MissingPackageError(WirelensError, ImportError):
    """An optional package is not installed; the text holds the line that installs it."""


class ForkedError(WirelensError, RuntimeError):
    """A result was begun before the process forked; its thread is in the other process."""


class InternalError(WirelensError, RuntimeError):
    """A fault of Wirelens itself; please report it."""


class ModelError(WirelensError, ValueError):
    """A model cannot be read, or cannot be written as trees of header bits."""


class SettingsError(OptionError):
    """Settings of a run, or what they ask for, cannot be: every mistake a line.

    Each line has the file and the number of the line, or the table and the key of a dictionary.
    """


class ApplicationError(WirelensError, RuntimeError):
    """An application of a run cannot go on, such as a packet log whose disk fails."""


class LossError(WirelensError, RuntimeError):
    """Results of a run that were to be kept are not all there; `result` has those that are."""

    def __init__(self, text: str, result: "Run | None" = None) -> None:
        super().__init__(text)
        self.result = result
        """The `Run` that lacks them."""


class CaptureWarning(WirelensError, UserWarning):
    """Packets of a capture were read and cannot be used as they are.

    Such as those of a link type that is not decoded; the text has the type and the count.
    """


class DamagedCaptureWarning(CaptureWarning):
    """A capture could not be read, or not to its end; results cover the rest.

    It is warned of, not raised. To have it raised:
    ``warnings.simplefilter("error", wirelens.DamagedCaptureWarning)``.
    """
