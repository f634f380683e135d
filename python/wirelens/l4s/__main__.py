"""`python -m wirelens.l4s eval …`: what `wirelens eval l4s` runs.

It ends as `wirelens.guarded` says.
"""

from collections.abc import Sequence

from wirelens import guarded, written
from wirelens.learn.progress import Progress


def main(arguments: Sequence[str]) -> int:
    """Compares controls; the exit status."""
    return guarded.run("wirelens.l4s", lambda: _prepare(arguments), "nothing was written")


def _prepare(arguments: Sequence[str]) -> guarded.Prepared:
    from wirelens.l4s import arguments as typed

    asked = typed.parser().parse_args(arguments)
    from wirelens.l4s import controls, report
    from wirelens.learn import plots

    if asked.plots is not None:
        plots.need_library()
    progress = Progress(asked.quiet)

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
        if asked.output is None:
            print(report.table(rows), end="")
        else:
            written.text(asked.output, report.table(rows))

    return progress, work


if __name__ == "__main__":
    guarded.exit_with(main)
