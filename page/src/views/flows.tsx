import { useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import { FlowTable } from "../parts/flow-table.tsx";
import { pageOf, Pager } from "../parts/pager.tsx";
import { Panel } from "../parts/panel.tsx";
import { SearchBox } from "../parts/search-box.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { recordsOf } from "../source/records.ts";

const PAGE_SIZE = 50;

export function Flows() {
  const { source, state } = useApp();
  const place = usePlace();
  const { where, sort = "-first_ns" } = place.query;
  const page = pageOf(place.query);
  const table = tableOf(state, "flows");
  const answer = useAnswer(table && `flows ${place.key}`, (signal) =>
    source.rows(
      "flows",
      { where, sort, limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE, ...place.bounds },
      signal,
    ),
  );
  if (table === null) return <NoTable name="flows" />;
  return (
    <div class="view">
      <SearchBox
        label="Filter flows"
        value={where ?? ""}
        columns={table.columns}
        example="ip == 10.0.0.0/8 and dst_port == 443"
        apply={(next) => place.go({ where: next, page: undefined })}
      />
      <Panel title="Flows" note="Open flows are included with what was seen of them so far">
        <Shown answer={answer} lines={16}>
          {(found) => (
            <>
              {found.rows.length === 0 ? (
                <Empty title="No flow matches">
                  <p>Change the filter, or choose a longer time range.</p>
                </Empty>
              ) : (
                <FlowTable
                  caption="Flows"
                  flows={recordsOf(found)}
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
                noun="flows"
              />
            </>
          )}
        </Shown>
      </Panel>
    </div>
  );
}
