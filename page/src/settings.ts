// What the reader chose, remembered by the browser.

import { useEffect, useState } from "preact/hooks";
import type { Zone } from "./format.ts";

export type Theme = "auto" | "light" | "dark";

/** Storage may be refused, in a private window or for a file: then a choice lasts until closing. */
function stored(name: string): string | null {
  try {
    return localStorage.getItem(`wirelens-${name}`);
  } catch {
    return null;
  }
}

function store(name: string, value: string): void {
  try {
    localStorage.setItem(`wirelens-${name}`, value);
  } catch {
    return;
  }
}

export interface Settings {
  zone: Zone;
  theme: Theme;
  isDark: boolean;
  setZone(zone: Zone): void;
  setTheme(theme: Theme): void;
}

export function useSettings(): Settings {
  const [zone, setZone] = useState<Zone>(() => (stored("zone") === "local" ? "local" : "utc"));
  const [theme, setTheme] = useState<Theme>(() => {
    const name = stored("theme");
    return name === "light" || name === "dark" ? name : "auto";
  });
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const [isSystemDark, setSystemDark] = useState(system.matches);
  useEffect(() => {
    const change = (event: MediaQueryListEvent): void => setSystemDark(event.matches);
    system.addEventListener("change", change);
    return () => system.removeEventListener("change", change);
  }, []);
  const isDark = theme === "auto" ? isSystemDark : theme === "dark";
  // Before children draw: charts read the colours of the theme.
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  return {
    zone,
    theme,
    isDark,
    setZone: (next) => {
      store("zone", next);
      setZone(next);
    },
    setTheme: (next) => {
      store("theme", next);
      setTheme(next);
    },
  };
}
