// Text from traffic is hostile: what would change how it reads is made visible.

/** Longer names are cut on screen; the title has the first of these characters. */
const TITLE_MAX = 2000;

function isHidden(code: number): boolean {
  return (
    (code >= 0x80 && code < 0xa0) ||
    code === 0xad ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x2028 && code <= 0x202e) ||
    (code >= 0x2060 && code <= 0x206f) ||
    (code >= 0xd800 && code <= 0xdfff) ||
    code === 0x061c ||
    code === 0xfeff ||
    (code >= 0xfff9 && code <= 0xfffb) ||
    (code >= 0xe0000 && code <= 0xe0fff)
  );
}

/** Control characters as their pictures (␛), bidi overrides and the like as escapes (\u202e). */
export function visible(text: string): string {
  let out = "";
  for (const char of text) {
    const code = char.codePointAt(0)!;
    if (code < 0x20) out += String.fromCodePoint(0x2400 + code);
    else if (code === 0x7f) out += "␡";
    else if (isHidden(code)) {
      const hex = code.toString(16).padStart(4, "0");
      out += code > 0xffff ? `\\u{${hex}}` : `\\u${hex}`;
    } else out += char;
  }
  return out;
}

export function titleOf(text: string): string {
  return visible(text.slice(0, TITLE_MAX));
}
