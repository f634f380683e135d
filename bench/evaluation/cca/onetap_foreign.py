"""The model of one tap that ships on traces of other people: `onetap_foreign.py TRACES OUT`.

TRACES are Nebby's of 17 controls of Linux at 50 to 200 kbit/s (`traces.py`), far below the links of
training. Each is read by `wirelens cca --model cca-onetap` as a user would; its last row that has
an answer or a reason counts. `foreign.jsonl` has a row a trace.
"""

import csv
import io
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))

import traces
from command import PROGRAM


def told(capture: Path) -> dict[str, str]:
    """The last row of the flow with data."""
    command = [PROGRAM, "cca", "-q", "-r", capture, "--model", "cca-onetap", "--every", "1s",
               "--format", "csv"]  # fmt: skip
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [row for row in csv.DictReader(io.StringIO(printed)) if row["dst_port"] == "5000"]
    answered = [row for row in rows if row["unnamed"] != "short"]
    return (answered or rows)[-1]


def judged(trace: traces.Trace, row: dict[str, str]) -> dict[str, Any]:
    names = [part.split(" ")[0] for part in row["likeliest"].split(", ") if part]
    return {
        "trace": trace.path.name, "control": trace.control, "rtt": trace.rtt, "rate": trace.rate,
        "named": row["control"] or None, "unnamed": row["unnamed"] or None, "likeliest": names,
        "confidence": float(row["confidence"]) if row["confidence"] else None,
    }  # fmt: skip


def summary(rows: list[dict[str, Any]], known: set[str]) -> str:
    named = [row for row in rows if row["named"]]
    right = sum(row["named"] == row["control"] for row in named)
    of_known = [row for row in rows if row["control"] in known]
    seen = [row for row in of_known if row["likeliest"]]
    top = sum(row["control"] in row["likeliest"] for row in seen)
    reasons = Counter(row["unnamed"] for row in rows if not row["named"])
    foreign = sum(row["control"] not in known for row in named)
    lines = [
        f"| traces | {len(rows)} |", "|---|---:|",
        f"| of controls that the model knows | {len(of_known)} |",
        f"| named | {len(named)} |", f"| of them right | {right} |",
        f"| of them of a control that the model does not know | {foreign} |",
        f"| of known controls with an answer, among the first three | {top} of {len(seen)} |",
    ]  # fmt: skip
    lines += [f"| not named: {why} | {count} |" for why, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def main() -> None:
    folder, output = Path(sys.argv[1]), Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    model = Path(__file__).resolve().parents[3] / "models/cca-onetap/model.safetensors"
    size = int.from_bytes(model.read_bytes()[:8], "little")
    header = json.loads(model.read_bytes()[8 : 8 + size])
    known = set(json.loads(header["__metadata__"]["wirelens"])["controls"])
    rows = []
    with tempfile.TemporaryDirectory() as name:
        capture = Path(name) / "trace.pcap"
        for trace in traces.find(folder):
            traces.write(trace.path, capture)
            rows.append(judged(trace, told(capture)))
    (output / "foreign.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (output / "foreign.md").write_text(summary(rows, known))
    print(summary(rows, known))


if __name__ == "__main__":
    main()
