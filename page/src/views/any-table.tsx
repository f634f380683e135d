// Any table of the run with all its columns, for those that have no view of their own.

import { hasColumn, tableOf, useApp } from "../context.ts";
import { type Place, usePlace } from "../navigate.ts";
import { Listed, ListingSearch, useListing } from "../parts/listing.tsx";
import { Panel } from "../parts/panel.tsx";
import { CellValue } from "../parts/record-list.tsx";
import { Empty, NoTable } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { type Rec, textOf } from "../source/records.ts";
import type { TableInfo } from "../source/source.ts";
import { visible } from "../visible.ts";

function columnsOf(table: TableInfo): TableColumn<Rec>[] {
  return table.columns.map((column) => ({
    name: column.name,
    label: column.name,
    sort: column.name,
    isNumber: !["text", "bytes", "timestamp"].includes(column.type),
    render: (row) => <CellValue column={column} cell={row[column.name] ?? null} />,
    ...(column.about ? { about: column.about } : {}),
  }));
}

function hrefOf(place: Place, row: Rec): string | null {
  const id = textOf(row, "community_id");
  if (id !== null) return place.to(["flow", id]);
  const host = textOf(row, "host") ?? textOf(row, "src_ip") ?? textOf(row, "dst_ip");
  return host === null ? null : place.to(["host", host]);
}

function Rows({ table }: { table: TableInfo }) {
  const place = usePlace();
  const { sort = table.time === null ? undefined : `-${table.time}` } = place.query;
  const listing = useListing("table", table.name, sort);
  const first = table.columns[0]?.name ?? "";
  return (
    <>
      <ListingSearch
        listing={listing}
        label="Filter rows"
        columns={table.columns}
        example={hasColumn(table, "src_ip") ? "ip == 10.0.0.0/8" : `${first} == …`}
      />
      <Panel title={visible(table.name)} note={visible(table.about)}>
        <Listed listing={listing} noun="rows" lines={16} empty={<Empty title="No row matches" />}>
          {(rows) => (
            <Table
              caption={`Rows of ${visible(table.name)}`}
              columns={columnsOf(table)}
              rows={rows}
              keyOf={(row) => JSON.stringify(row)}
              hrefOf={(row) => hrefOf(place, row)}
              sorting={listing.sorting}
            />
          )}
        </Listed>
      </Panel>
    </>
  );
}

export function AnyTable() {
  const { state, route } = useApp();
  const name = route.path[1] ?? "";
  const table = tableOf(state, name);
  return (
    <div class="view">{table === null ? <NoTable name={name} /> : <Rows table={table} />}</div>
  );
}
