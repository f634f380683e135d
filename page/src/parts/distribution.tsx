import { formatCount, formatShare } from "../format.ts";
import { numberOf, type Rec, textOf } from "../source/records.ts";

const BINS = 10;

interface Bin {
  from: number;
  named: number;
  unknown: number;
}

/** A confidence of exactly 1 belongs to the last bin. */
export function binsOf(rows: Rec[]): Bin[] {
  const bins = Array.from({ length: BINS }, (_, i) => ({ from: i / BINS, named: 0, unknown: 0 }));
  for (const row of rows) {
    const confidence = numberOf(row, "guess_confidence");
    if (confidence === null) continue;
    const bin = bins[Math.max(0, Math.min(BINS - 1, Math.floor(confidence * BINS)))]!;
    if (textOf(row, "label") === "unknown") bin.unknown += 1;
    else bin.named += 1;
  }
  return bins;
}

/** Confidence of verdicts: how many are sure, and where unknown begins. */
export function Distribution({ rows }: { rows: Rec[] }) {
  const bins = binsOf(rows);
  const max = bins.reduce((most, bin) => Math.max(most, bin.named + bin.unknown), 1);
  const total = rows.length;
  return (
    <>
      <ul class="distribution" aria-label="Verdicts by confidence of the likeliest class">
        {[...bins].reverse().map((bin) => (
          <li key={bin.from}>
            <span class="number">
              {bin.from.toFixed(1)}–{(bin.from + 1 / BINS).toFixed(1)}
            </span>
            <span class="bar" aria-hidden="true">
              <span class="bar-part bar-part-1" style={{ width: `${(bin.named / max) * 100}%` }} />
              <span
                class="bar-part bar-part-3"
                style={{ width: `${(bin.unknown / max) * 100}%` }}
              />
            </span>
            <span
              class="number"
              title={formatShare((bin.named + bin.unknown) / Math.max(total, 1))}
            >
              {formatCount(bin.named + bin.unknown)}
            </span>
          </li>
        ))}
      </ul>
      <ul class="legend">
        <li>
          <span class="swatch bar-part-1" aria-hidden="true" />
          named
        </li>
        <li>
          <span class="swatch bar-part-3" aria-hidden="true" />
          unknown
        </li>
      </ul>
    </>
  );
}
