// All columns of one row, by name: for what has no table of its own.

import type { ComponentChildren } from "preact";
import { formatBytes, formatCount, formatDuration, formatFraction } from "../format.ts";
import type { Rec } from "../source/records.ts";
import type { Cell, Column } from "../source/source.ts";
import { Text } from "./text.tsx";
import { Time } from "./time.tsx";

/** The unit is the end of a column's name. */
export function CellValue({ column, cell }: { column: Column; cell: Cell }): ComponentChildren {
  if (cell === null || cell === "") return <span class="none">–</span>;
  if (column.type === "timestamp") return <Time ns={String(cell)} hasDate />;
  if (typeof cell === "string") return <Text value={cell} />;
  return <span class="number">{numberText(column.name, column.type, cell)}</span>;
}

function numberText(name: string, type: Column["type"], value: number): string {
  if (name.endsWith("_ns")) return formatDuration(value);
  if (name.endsWith("_s")) return formatDuration(value * 1e9);
  if (name.endsWith("bytes") || name === "wire_len") return formatBytes(value);
  if (name.endsWith("port")) return String(value);
  return type === "f64" ? formatFraction(value) : formatCount(value);
}

interface Properties {
  record: Rec;
  columns: readonly Column[];
  without?: readonly string[];
}

export function RecordList({ record, columns, without = [] }: Properties) {
  const shown = columns.filter(
    (column) =>
      column.name in record && !without.includes(column.name) && record[column.name] !== null,
  );
  return (
    <dl class="record">
      {shown.map((column) => (
        <div key={column.name} title={column.about}>
          <dt>{column.name}</dt>
          <dd>
            <CellValue column={column} cell={record[column.name] ?? null} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
