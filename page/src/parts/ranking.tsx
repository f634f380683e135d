import { Bar } from "./bar.tsx";
import { Text } from "./text.tsx";

export interface Ranked {
  name: string | null;
  href: string | null;
  /** One part, or sent and received. */
  parts: number[];
  text: string;
  note?: string | null;
}

/** A short list of the largest, with bars. */
export function Ranking({ label, list }: { label: string; list: Ranked[] }) {
  const max = list.reduce(
    (most, each) =>
      Math.max(
        most,
        each.parts.reduce((a, b) => a + b, 0),
      ),
    0,
  );
  return (
    <ol class="ranking" aria-label={label}>
      {list.map((each, index) => (
        <li key={`${each.name} ${index}`}>
          {each.href === null ? (
            <Text value={each.name} none="none" />
          ) : (
            <a href={each.href}>
              <Text value={each.name} none="none" />
            </a>
          )}
          <span class="number">{each.text}</span>
          <Bar parts={each.parts} max={max} />
          {each.note && (
            <span class="ranking-note">
              <Text value={each.note} />
            </span>
          )}
        </li>
      ))}
    </ol>
  );
}
