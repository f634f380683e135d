"""`python -m wirelens.packetlog train|eval …`: what `wirelens train packetlog` runs.

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
        from wirelens.packetlog import arguments as typed
        from wirelens.packetlog.evaluate import evaluate
        from wirelens.packetlog.train import train
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("wirelens"):
            raise
        print(
            f"error: wirelens.packetlog needs {error.name}, which is not installed; "
            "install it with: pip install 'wirelens[train]'",
            file=sys.stderr,
        )
        return 1
    asked = typed.parser().parse_args(arguments)
    progress = Progress(asked.quiet)
    try:
        if asked.command == "train":
            outcome = train(typed.train_request(asked, arguments[1:]), progress)
            chosen = outcome.chosen
            progress.finish()
            print(
                f"{asked.output}: by folds {chosen.false_alarms:.2%} of benign packets marked, "
                f"recall {chosen.mean_known:.3f} of known attacks, {chosen.mean_unseen:.3f} of "
                "unseen"
            )
        else:
            found = evaluate(typed.eval_request(asked, arguments[1:]), progress)
            if asked.output is None:
                print(found.text, end="")
    except OptionError as error:
        return _failed(progress, error, 2)
    except (WirelensError, MissingPackageError) as error:
        return _failed(progress, error, 1)
    except OSError as error:
        return _failed(progress, error, 1)
    except KeyboardInterrupt:
        progress.finish()
        print("interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    return 0


def _failed(progress: Progress, error: Exception, status: int) -> int:
    progress.finish()
    print(f"error: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        # Before there was anything to do: libraries take seconds to load.
        sys.exit(INTERRUPTED)
