"""Errors: one class for each kind, all of them a `WirelensError`.

The texts are those of the command: what was seen, what was wanted, what to try.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wirelens.running import Run


class WirelensError(Exception):
    """Base class of all errors of Wirelens."""


class CaptureNotFoundError(WirelensError, FileNotFoundError):
    """No such file or folder."""


class CaptureUnreadableError(WirelensError, OSError):
    """The capture cannot be read, such as for lack of permission."""


class NotACaptureError(WirelensError, ValueError):
    """A file is not a capture, its first header is wrong, or a folder contains no capture."""


class EmptyCaptureError(NotACaptureError):
    """The file is empty."""


class FilterError(WirelensError, ValueError):
    """libpcap rejects the filter."""


class FilterUnavailableError(WirelensError, RuntimeError):
    """A filter was given, and libpcap is not installed."""


class OptionError(WirelensError, ValueError):
    """An argument is invalid."""


class OutputError(WirelensError, OSError):
    """A file cannot be written: no such folder, a full disk, another run that writes it."""


class OutputExistsError(OutputError, FileExistsError):
    """The output file already exists."""


class TraceError(WirelensError, ValueError):
    """A file is not a complete trace of an L4S network."""


class MissingPackageError(WirelensError, ImportError):
    """An optional package is not installed; the text holds the line that installs it."""


class ForkedError(WirelensError, RuntimeError):
    """A result was begun before the process forked; its thread is in the other process."""


class InternalError(WirelensError, RuntimeError):
    """A fault of Wirelens itself; please report it."""


class ModelError(WirelensError, ValueError):
    """A model cannot be read, or cannot be written as trees of header bits."""


class SettingsError(OptionError):
    """Settings of a run are invalid: one line per mistake.

    Each line has the file and the number of the line, or the table and the key of a dictionary.
    """


class ApplicationError(WirelensError, RuntimeError):
    """An application of a run cannot continue, such as a packet log whose disk fails."""


class LossError(WirelensError, RuntimeError):
    """Results of a run are incomplete; `result` has the existing ones."""

    def __init__(self, text: str, result: "Run | None" = None) -> None:
        super().__init__(text)
        self.result = result
        """The `Run` that lacks them."""


class WorkerLostError(WirelensError, RuntimeError):
    """Worker processes of `wirelens.ray` were lost more often than their task may be repeated."""


class CaptureWarning(WirelensError, UserWarning):
    """Packets of a capture cannot be used, such as those of a link type that is not decoded; the
    text has the type and the count.
    """


class SettingsWarning(WirelensError, UserWarning):
    """The settings have tables that only ``wirelens run`` acts on, such as ``[page]`` and
    ``[[alert]]``; the text names them.
    """


class DamagedCaptureWarning(CaptureWarning):
    """A capture could not be read, or not to its end; results cover the rest.

    It is a warning. To raise it as an error:
    ``warnings.simplefilter("error", wirelens.DamagedCaptureWarning)``.
    """
