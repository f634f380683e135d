"""The table of what was fuzzed."""

from page_rows import read

FOLDER = "2026-11-28-fuzz"


def targets() -> str:
    """Processor time, executed inputs and coverage of each target, and all together."""
    text = "| target | processor, minutes | inputs run | code edges | inputs that reach them |\n"
    text += "|---|---:|---:|---:|---:|\n"
    rows = read(f"{FOLDER}/targets.tsv")
    for row in rows:
        minutes = int(row["processor_s"]) / 60
        numbers = [int(row[name]) for name in ("executions", "edges", "inputs")]
        cells = [f"`{row['target']}`", f"{minutes:.1f}", *(f"{number:,}" for number in numbers)]
        text += f"| {' | '.join(cells)} |\n"
    seconds, count = (sum(int(row[name]) for row in rows) for name in ("processor_s", "executions"))
    return text + f"| all | {seconds / 60:.1f} | {count:,} | | |\n"
