"""`python -m wirelens.packetlog train|eval …`: what `wirelens train packetlog` runs.

It ends as `wirelens.guarded` says.
"""

from collections.abc import Sequence

from wirelens import guarded
from wirelens.learn.progress import Progress


def main(arguments: Sequence[str]) -> int:
    """Trains or judges; the exit status."""
    return guarded.run("wirelens.packetlog", lambda: _prepare(arguments), "nothing was written")


def _prepare(arguments: Sequence[str]) -> guarded.Preparation:
    from wirelens.packetlog import arguments as typed
    from wirelens.packetlog.evaluate import evaluate
    from wirelens.packetlog.train import train

    asked = typed.parser().parse_args(arguments)
    progress = Progress(asked.quiet)

    def work() -> None:
        if asked.command == "train":
            outcome = train(typed.train_request(asked, arguments[1:]), progress)
            chosen = outcome.chosen
            progress.finish()
            print(
                f"{asked.output}: cross-validation: {chosen.false_alarms:.2%} of benign packets "
                f"marked, recall {chosen.mean_known:.3f} of known attacks, {chosen.mean_unseen:.3f} of unseen ones"
            )
        else:
            found = evaluate(typed.eval_request(asked, arguments[1:]), progress)
            if asked.output is None:
                print(found.text, end="")

    return progress, work


if __name__ == "__main__":
    guarded.exit_with(main)
