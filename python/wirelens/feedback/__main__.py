"""`python -m wirelens.feedback feedback …`: what `wirelens feedback` runs.

It ends as `wirelens.guarded` says.
"""

from collections.abc import Sequence

from wirelens import guarded
from wirelens.learn.progress import Progress


def main(arguments: Sequence[str]) -> int:
    """Collects flows; the exit status."""
    again = "nothing was written; the same command starts again"
    return guarded.run("wirelens.feedback", lambda: _prepare(arguments), again)


def _prepare(arguments: Sequence[str]) -> guarded.Preparation:
    from wirelens.feedback import arguments as typed
    from wirelens.feedback.collect import collect

    # The command comes first, as `wirelens` hands it on.
    options = arguments[1:] if arguments[:1] == ["feedback"] else arguments
    asked = typed.parser().parse_args(options)
    progress = Progress(asked.quiet)

    def work() -> None:
        print(collect(typed.request(asked, options), progress))

    return progress, work


if __name__ == "__main__":
    guarded.exit_with(main)
