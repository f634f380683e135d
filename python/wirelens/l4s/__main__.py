"""`python -m wirelens.l4s train|eval …`: what `wirelens train l4s` runs.

It ends as `wirelens.guarded` says.
"""

import argparse
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

from wirelens import guarded, written
from wirelens.learn.progress import Progress


def main(arguments: Sequence[str]) -> int:
    """Trains, or compares controls or predictors; the exit status."""
    return guarded.run("wirelens.l4s", lambda: _prepare(arguments), "nothing was written")


def _prepare(arguments: Sequence[str]) -> guarded.Preparation:
    from wirelens.l4s import arguments as typed

    asked = typed.parser().parse_args(arguments)
    progress = Progress(asked.quiet)
    if asked.command == "train":
        return progress, _training(asked, arguments[1:], progress)
    compare = _predictors if asked.predict else _controls
    return progress, compare(asked, progress)


def _training(
    asked: argparse.Namespace, options: Sequence[str], progress: Progress
) -> Callable[[], None]:
    from wirelens.l4s import arguments as typed
    from wirelens.l4s.train import train

    def work() -> None:
        outcome = train(typed.training(asked, options), progress)
        progress.finish()
        f1 = ", ".join(f"{value:.3f} within the {name}" for name, value in outcome.f1.items())
        print(
            f"{asked.output}: mean error {outcome.mean_error_ms:.2f} ms "
            f"({outcome.mean_error_of_last_ms:.2f} of the queue's newest latency), "
            f"F1 of sharp changes {f1 or 'unknown: there were none'}"
        )

    return work


def _controls(asked: argparse.Namespace, progress: Progress) -> Callable[[], None]:
    from wirelens.l4s import arguments as typed
    from wirelens.l4s import controls, report
    from wirelens.learn import plots

    if asked.plots is not None:
        plots.need_library()

    def work() -> None:
        for path in (asked.output, asked.rows):
            written.check(path)
        rows = controls.compare(typed.request(asked), progress.show)
        progress.finish()
        if asked.rows is not None:
            written.text(asked.rows, "".join(f"{row.text()}\n" for row in rows))
        if asked.plots is not None:
            asked.plots.mkdir(parents=True, exist_ok=True)
            report.draw(rows, asked.plots)
        _write(asked.output, report.table(rows))

    return work


def _predictors(asked: argparse.Namespace, progress: Progress) -> Callable[[], None]:
    from wirelens.l4s import arguments as typed
    from wirelens.l4s import predicted
    from wirelens.l4s.choices import NETWORKS
    from wirelens.l4s.rhythm import Row, rows_in

    if any(name.startswith(NETWORKS) for name in asked.predictors):
        # What is not installed is said before work begins.
        importlib.import_module("wirelens.l4s.networked")

    def work() -> None:
        written.check(asked.output)
        known: list[Row] = []
        if asked.rows is not None and asked.rows.exists():
            known = rows_in(asked.rows)

        def keep(row: Row) -> None:
            if asked.rows is not None:
                with written.naming(asked.rows), asked.rows.open("a") as file:
                    file.write(f"{row.text()}\n")

        rows = predicted.compare(typed.prediction(asked), known, progress.tell, keep)
        progress.finish()
        _write(asked.output, predicted.table(rows))

    return work


def _write(output: Path | None, text: str) -> None:
    if output is None:
        print(text, end="")
    else:
        written.text(output, text)


if __name__ == "__main__":
    guarded.exit_with(main)
