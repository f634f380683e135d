// Any table of the run with all its columns, for those that have no view of their own.

import { useAnswer } from "../answer.ts";
import { hasColumn, tableOf, useApp } from "../context.ts";
import { type Place, usePlace } from "../navigate.ts";
import { pageOf, Pager } from "../parts/pager.tsx";
import { Panel } from "../parts/panel.tsx";
import { CellValue } from "../parts/record-list.tsx";
import { SearchBox } from "../parts/search-box.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { type Rec, recordsOf, textOf } from "../source/records.ts";
import type { TableInfo } from "../source/source.ts";
import { visible } from "../visible.ts";

const PAGE_SIZE = 50;

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
  const { source } = useApp();
  const place = usePlace();
  const { where, sort = table.time === null ? undefined : `-${table.time}` } = place.query;
  const page = pageOf(place.query);
  const answer = useAnswer(`table ${place.key}`, (signal) =>
    source.rows(
      table.name,
      { where, sort, limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE, ...place.bounds },
      signal,
    ),
  );
  const first = table.columns[0]?.name ?? "";
  return (
    <>
      <SearchBox
        label="Filter rows"
        value={where ?? ""}
        columns={table.columns}
        example={hasColumn(table, "src_ip") ? "ip == 10.0.0.0/8" : `${first} == …`}
        apply={(next) => place.go({ where: next, page: undefined })}
      />
      <Panel title={visible(table.name)} note={visible(table.about)}>
        <Shown answer={answer} lines={16}>
          {(found) => (
            <>
              {found.rows.length === 0 ? (
                <Empty title="No row matches" />
              ) : (
                <Table
                  caption={`Rows of ${visible(table.name)}`}
                  columns={columnsOf(table)}
                  rows={recordsOf(found)}
                  keyOf={(row) => JSON.stringify(row)}
                  hrefOf={(row) => hrefOf(place, row)}
                  sorting={{
                    current: sort,
                    change: (next) => place.go({ sort: next, page: undefined }),
                  }}
                />
              )}
              <Pager
                page={page}
                pageSize={PAGE_SIZE}
                matched={found.matched}
                searched={found.searched}
                noun="rows"
              />
            </>
          )}
        </Shown>
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
