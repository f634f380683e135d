"""`python -m wirelens.classify train|eval …`: what `wirelens train classify` runs.

It ends as `wirelens.guarded` says.
"""

from collections.abc import Sequence

from wirelens import guarded
from wirelens.learn.progress import Progress


def main(arguments: Sequence[str]) -> int:
    """Trains or judges; the exit status."""
    again = "the same command continues where it stopped"
    return guarded.run("wirelens.classify", lambda: _prepare(arguments), again)


def _prepare(arguments: Sequence[str]) -> guarded.Preparation:
    from wirelens.classify import arguments as typed
    from wirelens.classify import recipe_file
    from wirelens.classify.cross import cross_validate
    from wirelens.classify.evaluate import evaluate
    from wirelens.classify.train import train

    parser = typed.parser()
    typed_first = parser.parse_args(arguments)
    progress = Progress(typed_first.quiet)

    def work() -> None:
        asked = typed_first
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

    return progress, work


if __name__ == "__main__":
    guarded.exit_with(main)
