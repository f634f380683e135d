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
    from wirelens.cca.evaluate import evaluate, table
    from wirelens.cca.train import train

    progress = Progress(asked.quiet)

    def work() -> None:
        if asked.command == "train":
            outcome = train(typed.train_request(asked, arguments[1:]), progress)
            progress.finish()
            told = ", ".join(f"{f1:.3f} of {span}" for span, f1 in outcome.f1.items())
            print(f"{asked.output}: F1 on the validation runs {told}")
            return
        request = typed.eval_request(asked)
        written.check(request.output)
        text = table(evaluate(request, progress), request.model.controls)
        if request.output is None:
            print(text, end="")
        else:
            written.text(request.output, text)

    return progress, work


if __name__ == "__main__":
    guarded.exit_with(main)
