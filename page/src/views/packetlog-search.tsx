import { useRef } from "preact/hooks";
import { useAnswerOnce } from "../answer.ts";
import { useApp } from "../context.ts";
import { formatBytes, formatCount, formatCountOf } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Panel } from "../parts/panel.tsx";
import { Empty, Failed, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { destinationOf, sourceOf } from "../parts/flow-table.tsx";
import { parseTime } from "../source/literal.ts";
import { numberOf, type Rec, recordsOf, textOf } from "../source/records.ts";
import { visible } from "../visible.ts";
import type { LogSearch } from "../source/source.ts";

const PACKETS_MAX = 500;
const FIELDS = ["host", "flow", "class", "after", "before"] as const;

const COLUMNS: TableColumn<Rec>[] = [
  { name: "time", label: "Time", render: (row) => <Time ns={textOf(row, "time_ns")} /> },
  { name: "src", label: "Source", render: (row) => <Text value={sourceOf(row)} /> },
  { name: "dst", label: "Destination", render: (row) => <Text value={destinationOf(row)} /> },
  {
    name: "protocol",
    label: "Protocol",
    render: (row) => <Text value={textOf(row, "protocol")} />,
  },
  {
    name: "length",
    label: "Length",
    isNumber: true,
    render: (row) => formatBytes(numberOf(row, "length")),
  },
  {
    name: "kept",
    label: "Kept",
    isNumber: true,
    about: "Bytes of the packet in the log",
    render: (row) => formatBytes(numberOf(row, "kept")),
  },
  { name: "class", label: "Class", render: (row) => <Text value={textOf(row, "class")} /> },
];

/** The page's time range is for tables; a search of the log has its own, `after` to `before`. */
function searchOf(query: Record<string, string>): LogSearch | null {
  if (FIELDS.every((name) => query[name] === undefined)) return null;
  return {
    host: query.host,
    flow: query.flow,
    class: query.class,
    from: query.after,
    to: query.before,
  };
}

function Form({ classes }: { classes: string[] }) {
  const place = usePlace();
  const form = useRef<HTMLFormElement>(null);
  const submit = (event: Event): void => {
    event.preventDefault();
    const data = new FormData(form.current!);
    const value = (name: string): string => String(data.get(name) ?? "").trim();
    place.go(Object.fromEntries(FIELDS.map((name) => [name, value(name)])));
  };
  const field = (name: string, label: string, example: string) => (
    <label>
      {label}
      <input type="text" name={name} placeholder={example} defaultValue={place.query[name] ?? ""} />
    </label>
  );
  const time = (name: string, label: string) => {
    const given = place.query[name];
    const isWrong = given !== undefined && parseTime(given) === null;
    return (
      <label>
        {label}
        <input
          type="text"
          name={name}
          placeholder="2026-01-31T10:00:00Z"
          defaultValue={given ?? ""}
          aria-invalid={isWrong}
        />
      </label>
    );
  };
  return (
    <form ref={form} class="log-form" onSubmit={submit} key={JSON.stringify(place.query)}>
      {field("host", "Host", "192.0.2.7")}
      {field("flow", "Flow (Community ID)", "1:wCb3OG7yAFWelaUydu0D+125CLM=")}
      <label>
        Class
        <select name="class" defaultValue={place.query.class ?? ""}>
          <option value="">Any</option>
          {classes.map((name) => (
            <option key={name} value={name}>
              {visible(name)}
            </option>
          ))}
        </select>
      </label>
      {time("after", "From (UTC)")}
      {time("before", "To (UTC)")}
      <button type="submit" class="is-main">
        Search
      </button>
    </form>
  );
}

function Results({ search }: { search: LogSearch }) {
  const { source } = useApp();
  const answer = useAnswerOnce(`log search ${JSON.stringify(search)}`, (signal) =>
    source.searchLog({ ...search, limit: PACKETS_MAX }, signal),
  );
  const address = source.pcapngAddress(search);
  return (
    <Shown answer={answer} lines={8}>
      {(found) =>
        found.rows.length === 0 ? (
          <Empty title="No recorded packet matches" />
        ) : (
          <>
            <p class="log-found">
              {formatCountOf(found.matched, "packet")} {found.matched === 1 ? "matches" : "match"}
              {found.is_cut && `; the first ${formatCount(found.rows.length)} are shown`}.{" "}
              {address !== null && (
                <a class="button" href={address} download>
                  Download pcapng
                </a>
              )}
            </p>
            <Table
              caption="Recorded packets"
              columns={COLUMNS}
              rows={recordsOf(found)}
              keyOf={(row) => JSON.stringify(row)}
            />
          </>
        )
      }
    </Shown>
  );
}

export function LogSearchPanel({ classes }: { classes: string[] }) {
  const place = usePlace();
  const search = searchOf(place.query);
  const wrong = ["after", "before"]
    .map((name) => place.query[name])
    .find((text) => text !== undefined && parseTime(text) === null);
  return (
    <Panel title="Search" note="recorded packets by host, flow, class and time">
      <Form classes={classes} />
      {wrong !== undefined && (
        <Failed error={`"${wrong}" is not a time; write 2026-01-31T10:00:00Z`} />
      )}
      {search === null ? (
        <p class="hint">Give at least one of these. Fields left empty match every packet.</p>
      ) : (
        wrong === undefined && <Results search={search} />
      )}
    </Panel>
  );
}
