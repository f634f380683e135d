"""`python -m wirelens.cca train|eval …`: what `wirelens train cca` runs.

It ends as `wirelens.guarded` says.
"""

from collections.abc import Sequence

from wirelens import guarded, written
from wirelens.learn.progress import Progress


def main(arguments: Sequence[str]) -> int:
    """Trains or judges; the exit status."""
    return guarded.run("wirelens.cca", lambda: _prepare(arguments), "nothing was written")


def _prepare(arguments: Sequence[str]) -> guarded.Preparation:
    from wirelens.cca import arguments as typed

    # What can be typed is told, and refused, without what trains.
    asked = typed.parser().parse_args(arguments)
    from wirelens.cca import commands

    progress = Progress(asked.quiet)

    def work() -> None:
        if asked.command == "train":
            print(commands.trained(asked, arguments[1:], progress))
            return
        written.check(asked.output)
        text = commands.evaluated(asked, progress)
        if asked.output is None:
            print(text, end="")
        else:
            written.text(asked.output, text)

    return progress, work


if __name__ == "__main__":
    guarded.exit_with(main)
