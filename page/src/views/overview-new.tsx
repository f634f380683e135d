// What was seen for the first time.

import { useAnswer } from "../answer.ts";
import { hasColumn, tableOf, useApp } from "../context.ts";
import { formatAge, formatBytes, formatCountOf } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Panel } from "../parts/panel.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { Text } from "../parts/text.tsx";
import { type Rec, numberOf, recordsOf, sumOf, textOf } from "../source/records.ts";
import type { TableInfo } from "../source/source.ts";
import { quote } from "../source/tokens.ts";

const LIST_MAX = 6;

interface First {
  name: string | null;
  /** Where its rows are; no filter finds rows without a value. */
  href: string | null;
  about: string;
  first: string | null;
}

function FirstSeen({ label, list }: { label: string; list: First[] }) {
  const { state } = useApp();
  return (
    <ul class="first-seen" aria-label={label}>
      {list.map((each) => (
        <li key={each.name}>
          {each.href === null ? (
            <Text value={each.name} />
          ) : (
            <a href={each.href}>
              <Text value={each.name} />
            </a>
          )}
          <span class="note">{each.about}</span>
          <span class="number">{formatAge(each.first, state.now)}</span>
        </li>
      ))}
    </ul>
  );
}

/** Where rows were evicted, what was first among the others may have been there before. */
function noteOf(table: TableInfo | null): string {
  const isWhole = table === null || table.evicted === 0;
  return isWhole ? "seen for the first time, newest first" : "first in the rows held, newest first";
}

export function NewServices() {
  const { source, state } = useApp();
  const place = usePlace();
  const hasVerdicts = tableOf(state, "classify") !== null;
  const flows = tableOf(state, "flows");
  const table = hasVerdicts ? "classify" : "flows";
  const by = hasVerdicts ? "label" : hasColumn(flows, "app_protocol") ? "app_protocol" : "protocol";
  const isThere = hasVerdicts || flows !== null;
  const answer = useAnswer<Rec[]>(`new services ${table} ${by}`, async (signal) => {
    if (!isThere) return [];
    // Over all rows: what is new in the time range may be old in the table.
    const query = { by, min: "first_ns", sort: "-min_first_ns", limit: LIST_MAX };
    return recordsOf(await source.groups(table, query, signal));
  });
  const hrefOf = (name: string | null): string | null =>
    name === null
      ? null
      : place.to([hasVerdicts ? "services" : "flows"], { where: `${by} == ${quote(name)}` });
  return (
    <Panel title="New services" note={noteOf(tableOf(state, table))}>
      <Shown answer={answer} lines={LIST_MAX}>
        {(groups) =>
          groups.length === 0 ? (
            <Empty title="No services so far" />
          ) : (
            <FirstSeen
              label="New services"
              list={groups.map((group) => ({
                name: textOf(group, by) ?? "not recognised",
                href: hrefOf(textOf(group, by)),
                about: formatCountOf(numberOf(group, "rows"), "flow"),
                first: textOf(group, "min_first_ns"),
              }))}
            />
          )
        }
      </Shown>
    </Panel>
  );
}

export function NewHosts() {
  const { source, state } = useApp();
  const place = usePlace();
  const hasFlows = tableOf(state, "flows") !== null;
  const answer = useAnswer<Rec[]>(`new hosts ${hasFlows}`, async (signal) => {
    if (!hasFlows) return [];
    return recordsOf(await source.hosts({ sort: "-first_ns", limit: LIST_MAX }, signal));
  });
  return (
    <Panel title="New hosts" note={noteOf(tableOf(state, "flows"))}>
      <Shown answer={answer} lines={LIST_MAX}>
        {(hosts) =>
          hosts.length === 0 ? (
            <Empty title="No hosts so far" />
          ) : (
            <FirstSeen
              label="New hosts"
              list={hosts.map((host) => ({
                name: textOf(host, "host"),
                href: place.to(["host", textOf(host, "host") ?? ""]),
                about: formatBytes(sumOf(host, "bytes_sent", "bytes_received")),
                first: textOf(host, "first_ns"),
              }))}
            />
          )
        }
      </Shown>
    </Panel>
  );
}
