"""`python -m wirelens.classify train|eval …`: what `wirelens train classify` runs.

Exit status: 0 fine, 1 error, 2 wrong usage, 130 interrupted.
"""

import sys
from collections.abc import Sequence

from wirelens.classify.progress import Progress
from wirelens.errors import MissingPackageError, OptionError, WirelensError

INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Trains or judges; the exit status."""
    try:
        # What trains is an extra of the package, and may not be here.
        from wirelens.classify import arguments as typed
        from wirelens.classify import recipe_file
        from wirelens.classify.cross import cross_validate
        from wirelens.classify.evaluate import evaluate
        from wirelens.classify.train import train
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("wirelens"):
            raise
        print(
            f"error: wirelens.classify needs {error.name}, which is not installed; "
            "install it with: pip install 'wirelens[train]'",
            file=sys.stderr,
        )
        return 1
    parser = typed.parser()
    asked = parser.parse_args(arguments)
    progress = Progress(asked.quiet)
    try:
        if asked.command == "train" and asked.recipe is not None:
            written = recipe_file.options(asked.recipe)
            asked = parser.parse_args([arguments[0], *written, *arguments[1:]])
        if asked.command == "train" and asked.cross_validate:
            request = typed.train_request(asked, arguments[1:])
            text = cross_validate(request, asked.cross_validate, progress)
            if asked.report is None:
                print(text, end="")
        elif asked.command == "train":
            outcome = train(typed.train_request(asked, arguments[1:]), progress)
            from wirelens.classify.report import summary

            line = summary(outcome.evidence, outcome.verdicts.labels)
            print(f"{asked.output}: {line} on {len(outcome.evidence.truth)} {outcome.judged_on}")
        else:
            found = evaluate(typed.eval_request(asked, arguments[1:]), progress)
            if asked.output is None:
                print(found.text, end="")
    except OptionError as error:
        return _failed(progress, error, 2)
    except (WirelensError, MissingPackageError) as error:
        return _failed(progress, error, 1)
    except OSError as error:
        return _failed(progress, _told(error), 1)
    except KeyboardInterrupt:
        progress.finish()
        print("interrupted; the same line goes on where it stopped", file=sys.stderr)
        return INTERRUPTED
    return 0


def _told(error: OSError) -> str:
    """What the system refused, and of which file."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}; give another place, or look at who may write there"


def _failed(progress: Progress, error: Exception | str, status: int) -> int:
    progress.finish()
    print(f"error: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        # Before there was anything to do: libraries take seconds to load.
        sys.exit(INTERRUPTED)
