// What a run over sensors adds to other views: a column, a choice, a note on double counts.

import { useAnswer } from "../answer.ts";
import { hasColumn, tableOf, useApp } from "../context.ts";
import { formatRoute, withoutPages } from "../route.ts";
import { type Rec, textOf } from "../source/records.ts";
import { SENSORS } from "../source/one-sensor.ts";
import type { State } from "../source/source.ts";
import { visible } from "../visible.ts";
import type { TableColumn } from "./table.tsx";
import { Text } from "./text.tsx";

/** Sensors that a run follows at most. */
export const SENSORS_MAX = 1000;

export function hasSensors(state: State, table: string): boolean {
  return hasColumn(tableOf(state, table), "sensor");
}

const COLUMN: TableColumn<Rec> = {
  name: "sensor",
  label: "Sensor",
  sort: "sensor",
  render: (row) => <Text value={textOf(row, "sensor")} />,
};

/** Columns with that of sensors behind `after`, where the table has it. */
export function withSensor<T>(
  columns: TableColumn<T>[],
  isThere: boolean,
  after: string,
  column: TableColumn<T> = COLUMN as unknown as TableColumn<T>,
): TableColumn<T>[] {
  if (!isThere) return columns;
  const at = columns.findIndex((each) => each.name === after) + 1;
  return [...columns.slice(0, at), column, ...columns.slice(at)];
}

/** The sensor that all views are of, if the reader chose one. */
export function SensorChoice() {
  const { source, state, route } = useApp();
  const isThere = tableOf(state, SENSORS) !== null;
  const answer = useAnswer(isThere ? "names of sensors" : null, async (signal) => {
    const query = { by: "sensor", sort: "sensor", limit: SENSORS_MAX };
    const found = await source.groups(SENSORS, query, signal);
    return found.rows.map((row) => String(row[0]));
  });
  if (!isThere) return null;
  const choose = (name: string): void => {
    const query = { ...withoutPages(route.query), sensor: name };
    window.location.hash = formatRoute(route.path, query);
  };
  const chosen = route.query.sensor ?? "";
  const names = answer.data ?? [];
  // One that a link names may not have been heard yet.
  const shown = chosen === "" || names.includes(chosen) ? names : [chosen, ...names];
  return (
    <select
      class={`sensor-choice ${chosen === "" ? "" : "is-chosen"}`}
      aria-label="Sensor"
      value={chosen}
      onChange={(event) => choose(event.currentTarget.value)}
    >
      <option value="">All sensors</option>
      {shown.map((name) => (
        <option key={name} value={name}>
          {visible(name)}
        </option>
      ))}
    </select>
  );
}

/** Whether what is asked adds up the rows of several sensors. */
export function isOfSeveral(sensor: string | undefined, where: string | undefined): boolean {
  return sensor === undefined && !/\bsensor\b/.test(where ?? "");
}

interface NoteProperties {
  table?: string;
  /** The filter, where it is of all that the view shows. */
  where?: string | undefined;
}

/** On views that add rows up. */
export function SensorsNote({ table = "flows", where }: NoteProperties) {
  const { state, route } = useApp();
  if (!hasSensors(state, table) || !isOfSeveral(route.query.sensor, where)) return null;
  return (
    <p class="hint">
      A flow that several sensors saw is counted once for each of them; choose a sensor above to
      count it once.
    </p>
  );
}
