import { useApp } from "../context.ts";
import { formatClock, formatMoment, formatSecond } from "../format.ts";

interface Properties {
  ns: string | null | undefined;
  /** With the date, where rows may be of several days. */
  hasDate?: boolean;
}

export function Time({ ns, hasDate = false }: Properties) {
  const { zone, hasDates } = useApp();
  const short = hasDate || hasDates ? formatSecond(ns, zone) : formatClock(ns, zone);
  return (
    <span class="number" title={formatMoment(ns, zone)}>
      {short}
    </span>
  );
}
