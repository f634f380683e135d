// What could come next in a filter expression, at the cursor.

import { fieldOf, fieldNames } from "../source/fields.ts";
import type { Column } from "../source/source.ts";

export interface Suggestion {
  text: string;
  about: string;
}

export interface Suggested {
  /** The part of the expression that a suggestion replaces. */
  from: number;
  to: number;
  list: Suggestion[];
}

const LIST_MAX = 8;
const TEXT_SIGNS: Suggestion[] = [
  { text: "==", about: "equal" },
  { text: "!=", about: "different" },
  { text: "contains", about: "contains, in any case" },
  { text: "in", about: 'one of {"a", "b"}' },
];
const NUMBER_SIGNS: Suggestion[] = [
  { text: "==", about: "equal" },
  { text: "!=", about: "different" },
  { text: ">", about: "greater: 10k, 1M, 5ms" },
  { text: "<", about: "less" },
];
const LINKS: Suggestion[] = [
  { text: "and", about: "both" },
  { text: "or", about: "either" },
];
const ALIASES: Record<string, string> = {
  ip: "Source or destination address, or a prefix",
  port: "Source or destination port",
  bytes: "Bytes of both directions",
  packets: "Packets of both directions",
};

export function suggest(text: string, cursor: number, columns: readonly Column[]): Suggested {
  const before = text.slice(0, cursor);
  const word = /[\w.]*$/.exec(before)![0];
  const from = cursor - word.length;
  const head = before.slice(0, from).trimEnd();
  const isQuoted = (head.match(/"/g)?.length ?? 0) % 2 === 1;
  if (isQuoted) return { from, to: cursor, list: [] };
  const last = /(\S+)$/.exec(head)?.[1] ?? "";
  const isStart = head === "" || /(^|[\s(])(and|or|not|&&|\|\||!)$|\($/i.test(head);
  const list = isStart ? names(columns) : after(last, head, columns);
  const typed = word.toLowerCase();
  const fits = list.filter(
    (each) =>
      each.text !== word && (each.text.startsWith(typed) || each.text.includes(`_${typed}`)),
  );
  return { from, to: cursor, list: fits.slice(0, LIST_MAX) };
}

function names(columns: readonly Column[]): Suggestion[] {
  const abouts = new Map(columns.map((column) => [column.name, column.about ?? ""]));
  const all = fieldNames(columns);
  const aliases = all.filter((name) => !abouts.has(name));
  return [...aliases, ...all.filter((name) => abouts.has(name))].map((name) => ({
    text: name,
    about: abouts.get(name) ?? ALIASES[name] ?? "",
  }));
}

function after(last: string, head: string, columns: readonly Column[]): Suggestion[] {
  const field = fieldOf(last.replace(/^\(+/, ""), columns);
  const isCompared = /(==|!=|<=|>=|<|>|\bcontains|\bin)\s+\S+$/i.test(head);
  if (field !== null && !isCompared) {
    return field.type === "text" || field.type === "bytes" ? TEXT_SIGNS : NUMBER_SIGNS;
  }
  return isCompared || /[)}"]$/.test(last) ? LINKS : [];
}
