// The words of a filter expression.

export type Token =
  | { kind: "word"; text: string; at: number }
  | { kind: "quoted"; text: string; at: number }
  | { kind: "sign"; text: string; at: number }
  | { kind: "end"; text: ""; at: number };

/** What is wrong with an expression, and where, counted in characters from 0. */
export class FilterError extends Error {
  constructor(
    message: string,
    readonly at: number,
  ) {
    super(message);
    this.name = "FilterError";
  }
}

const SIGNS = ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "{", "}", ","];
const ENDS_WORD = /[\s"'=!<>&|(){},]/;

function quoted(text: string, start: number): { token: Token; next: number } {
  const quote = text[start];
  let content = "";
  for (let i = start + 1; i < text.length; i += 1) {
    const char = text[i]!;
    if (char === quote) return { token: { kind: "quoted", text: content, at: start }, next: i + 1 };
    if (char === "\\" && i + 1 < text.length) {
      i += 1;
      content += text[i]!;
    } else {
      content += char;
    }
  }
  throw new FilterError(`the quotation mark at character ${start + 1} is not closed`, start);
}

function word(text: string, start: number): { token: Token; next: number } {
  let end = start;
  while (end < text.length && !ENDS_WORD.test(text[end]!)) end += 1;
  if (end === start) {
    const seen = text[start]!;
    const hint = seen === "=" ? "; write == to compare" : "";
    throw new FilterError(`unexpected "${seen}" at character ${start + 1}${hint}`, start);
  }
  return { token: { kind: "word", text: text.slice(start, end), at: start }, next: end };
}

export function tokens(text: string): Token[] {
  const found: Token[] = [];
  let at = 0;
  while (at < text.length) {
    const char = text[at]!;
    if (/\s/.test(char)) {
      at += 1;
      continue;
    }
    const sign = SIGNS.find((each) => text.startsWith(each, at));
    if (sign !== undefined) {
      found.push({ kind: "sign", text: sign, at });
      at += sign.length;
      continue;
    }
    const step = char === '"' || char === "'" ? quoted(text, at) : word(text, at);
    found.push(step.token);
    at = step.next;
  }
  found.push({ kind: "end", text: "", at: text.length });
  return found;
}

/** Text as a value of an expression, whatever it contains. */
export function quote(text: string): string {
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}
