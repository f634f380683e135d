import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { AppContext, hasColumn, spansDays, tableOf } from "./context.ts";
import { useLive } from "./live.ts";
import { Banners } from "./parts/banners.tsx";
import { Boundary } from "./parts/boundary.tsx";
import { Navigation } from "./parts/navigation.tsx";
import { MissingRows } from "./parts/missing-rows.tsx";
import { Failed, Skeleton } from "./parts/states.tsx";
import { TopLine } from "./parts/top-line.tsx";
import { parseRoute, type Route } from "./route.ts";
import { useSettings } from "./settings.ts";
import { OneSensorSource } from "./source/one-sensor.ts";
import type { Source, State } from "./source/source.ts";
import { viewOf } from "./views.ts";

function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(window.location.hash));
  useEffect(() => {
    const change = (): void => setRoute(parseRoute(window.location.hash));
    window.addEventListener("hashchange", change);
    return () => window.removeEventListener("hashchange", change);
  }, []);
  return route;
}

function ofSensor(source: Source, state: State, sensor: string | undefined): Source {
  if (sensor === undefined) return source;
  return new OneSensorSource(source, sensor, (table) => hasColumn(tableOf(state, table), "sensor"));
}

/** Moves focus to a new view, so that a screen reader reads it and Tab starts there. */
function useFocusOnView(path: string): RefObject<HTMLElement | null> {
  const main = useRef<HTMLElement>(null);
  const before = useRef(path);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    window.scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [path]);
  return main;
}

export function App({ source }: { source: Source }) {
  const live = useLive(source);
  const route = useRoute();
  const settings = useSettings();
  const view = viewOf(route);
  const main = useFocusOnView(route.path.join("/"));
  useEffect(() => {
    document.title = `${view.title} · Wirelens`;
  }, [view.title]);

  if (live.state === null) {
    return (
      <main class="boot">
        <h1>Wirelens</h1>
        {live.error === null ? <Skeleton lines={4} /> : <Failed error={live.error} />}
      </main>
    );
  }
  const { state, tick, connection } = live;
  const { zone, isDark } = settings;
  return (
    <AppContext.Provider
      value={{
        source: ofSensor(source, state, route.query.sensor),
        state,
        tick,
        connection,
        route,
        zone,
        isDark,
        hasDates: spansDays(state),
      }}
    >
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to content
      </a>
      <div class="layout">
        <Navigation current={view.section} />
        <div class="content">
          <TopLine view={view} settings={settings} live={live} />
          <Banners />
          <MissingRows tables={view.name === "table" ? route.path.slice(1, 2) : view.tables} />
          <main
            id="main"
            ref={main}
            tabIndex={-1}
            class={connection === "lost" ? "is-stale" : undefined}
          >
            <Boundary key={route.path.join("/")}>
              <view.View />
            </Boundary>
          </main>
        </div>
      </div>
    </AppContext.Provider>
  );
}
