import { useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import { AlertTable, useFiring } from "../parts/alert-list.tsx";
import { pageOf, Pager } from "../parts/pager.tsx";
import { Panel } from "../parts/panel.tsx";
import { SearchBox } from "../parts/search-box.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { recordsOf } from "../source/records.ts";

const PAGE_SIZE = 50;

export function Alerts() {
  const { source, state } = useApp();
  const place = usePlace();
  const firing = useFiring();
  const { where } = place.query;
  const page = pageOf(place.query);
  const table = tableOf(state, "alerts");
  const answer = useAnswer(table && `alerts ${place.key}`, (signal) =>
    source.rows(
      "alerts",
      {
        where,
        sort: "-time_ns",
        limit: PAGE_SIZE,
        offset: (page - 1) * PAGE_SIZE,
        ...place.bounds,
      },
      signal,
    ),
  );
  if (table === null)
    return (
      <div class="view">
        <NoTable name="alerts" />
      </div>
    );
  return (
    <div class="view">
      <Panel title="Firing">
        <Shown answer={firing} lines={3}>
          {(alerts) =>
            alerts.length === 0 ? (
              <Empty title="No alert is firing" />
            ) : (
              <AlertTable caption="Firing alerts" alerts={alerts} />
            )
          }
        </Shown>
      </Panel>
      <Panel title="History" note="newest first">
        <SearchBox
          label="Filter alerts"
          value={where ?? ""}
          columns={table.columns}
          example='severity == "critical" and state == "firing"'
          apply={(next) => place.go({ where: next, page: undefined })}
        />
        <Shown answer={answer} lines={8}>
          {(found) => (
            <>
              {found.rows.length === 0 ? (
                <Empty title="No alert matches" />
              ) : (
                <AlertTable caption="Past alerts" alerts={recordsOf(found)} />
              )}
              <Pager
                page={page}
                pageSize={PAGE_SIZE}
                matched={found.matched}
                searched={found.searched}
                noun="alerts"
              />
            </>
          )}
        </Shown>
      </Panel>
    </div>
  );
}
