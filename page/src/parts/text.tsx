import { titleOf, visible } from "../visible.ts";

/** Text from traffic. Cut by the style sheet where it is long; the title has the whole. */
export function Text({ value, none = "–" }: { value: string | null | undefined; none?: string }) {
  if (value === null || value === undefined || value === "")
    return <span class="none">{none}</span>;
  return (
    <span class="cut" title={titleOf(value)}>
      {visible(value)}
    </span>
  );
}

/** An end of a flow: `10.0.0.1:443`, `[2001:db8::1]:443`. */
export function endText(address: string | null, port: number | null): string {
  if (address === null) return "–";
  if (port === null) return address;
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}
