import { useApp } from "../context.ts";
import { formatCount } from "../format.ts";
import { type Missing, missingOf } from "../missing.ts";
import { usePlace } from "../navigate.ts";
import { Time } from "./time.tsx";

function Held({ list }: { list: Missing[] }) {
  return (
    <>
      {list.map(({ table, held, all, since }, i) => (
        <span key={table}>
          {i > 0 && "; "}
          <code>{table}</code> {formatCount(held)} of {formatCount(all)} rows
          {since !== null && (
            <>
              , since <Time ns={since} />
            </>
          )}
        </span>
      ))}
    </>
  );
}

/** Which rows the figures of a view lack. */
export function MissingRows({ tables }: { tables: readonly string[] }) {
  const { state } = useApp();
  const place = usePlace();
  const list = missingOf(tables, state, place.bounds);
  if (list.length === 0) return null;
  if (state.mode === "report") {
    return (
      <div class="banner banner-warning" role="status">
        <strong>
          This report holds <Held list={list} />.
        </strong>{" "}
        Totals, shares and first times of these tables are of the rows held: those with the most
        bytes, or the latest. The page of <code>wirelens run --page</code> holds more.
      </div>
    );
  }
  return (
    <p class="hint">
      In memory are <Held list={list} />: totals, shares and first times of these tables are of
      those rows. <code>[history]</code> keeps older ones on disk.
    </p>
  );
}
