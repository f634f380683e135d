"""What can end a run: each text says what was seen, what was wanted and what to try."""


class TestbedError(Exception):
    """Something the user has to know of; the text is the whole message."""


class LabError(TestbedError):
    """A program, a device or the kernel did not do as asked."""


class MachineError(TestbedError):
    """This machine lacks something that the scenario needs."""


class ScenarioError(TestbedError):
    """A scenario or data set says something that cannot be done."""


class InterruptSignal(BaseException):
    """A signal asked the run to end. Like KeyboardInterrupt, no handler of errors may swallow it."""


class LabClosing(Exception):
    """Raised in a worker thread once the lab is being taken down."""
