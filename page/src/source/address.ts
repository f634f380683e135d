// IP addresses and prefixes as numbers, so that `2001:DB8::1` equals `2001:db8:0::1`.

export interface Prefix {
  bits: 32 | 128;
  value: bigint;
  length: number;
}

function parseIpv4(text: string): bigint | null {
  const parts = text.split(".");
  if (parts.length !== 4) return null;
  let value = 0n;
  for (const part of parts) {
    if (!/^\d{1,3}$/.test(part) || Number(part) > 255) return null;
    value = (value << 8n) | BigInt(part);
  }
  return value;
}

function parseGroups(text: string): number[] | null {
  if (text === "") return [];
  const groups: number[] = [];
  const parts = text.split(":");
  for (const [i, part] of parts.entries()) {
    if (part.includes(".") && i === parts.length - 1) {
      const tail = parseIpv4(part);
      if (tail === null) return null;
      groups.push(Number(tail >> 16n), Number(tail & 0xffffn));
    } else if (/^[0-9a-f]{1,4}$/i.test(part)) {
      groups.push(Number.parseInt(part, 16));
    } else {
      return null;
    }
  }
  return groups;
}

function parseIpv6(text: string): bigint | null {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const head = parseGroups(halves[0]!);
  const tail = halves.length === 2 ? parseGroups(halves[1]!) : [];
  if (head === null || tail === null) return null;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null;
  const groups = [...head, ...Array<number>(missing).fill(0), ...tail];
  return groups.reduce((value, group) => (value << 16n) | BigInt(group), 0n);
}

/** An address or a prefix such as `10.0.0.0/8`; null where the text is neither. */
export function parsePrefix(text: string): Prefix | null {
  const [address, length, more] = text.split("/");
  if (address === undefined || more !== undefined) return null;
  const ipv4 = parseIpv4(address);
  const bits = ipv4 === null ? 128 : 32;
  const value = ipv4 ?? (address.includes(":") ? parseIpv6(address) : null);
  if (value === null) return null;
  if (length === undefined) return { bits, value, length: bits };
  if (!/^\d{1,3}$/.test(length) || Number(length) > bits) return null;
  return { bits, value, length: Number(length) };
}

export function contains(prefix: Prefix, address: Prefix): boolean {
  if (prefix.bits !== address.bits) return false;
  const shift = BigInt(prefix.bits - prefix.length);
  return prefix.value >> shift === address.value >> shift;
}
