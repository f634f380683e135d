import { useEffect, useId, useRef, useState } from "preact/hooks";
import { compileFilter } from "../source/filter.ts";
import type { Column } from "../source/source.ts";
import { suggest } from "./suggest.ts";

interface Properties {
  label: string;
  value: string;
  columns: readonly Column[];
  example: string;
  apply(where: string): void;
}

function errorOf(where: string, columns: readonly Column[]): string | null {
  try {
    compileFilter(where, columns);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const SYNTAX: [string, string][] = [
  ["ip == 10.0.0.0/8", "an address or prefix, on either side"],
  ["dst_port in {80, 443}", "one of several values"],
  ["bytes > 1M", "k, M and G are 1,000s; ns, us, ms, s, m and h are durations"],
  ['server_name contains "example"', "text, in any case"],
  ["first_ns > 2026-01-31T10:00:00Z", "a time, UTC"],
  ["not (a == 1) and b == 2 or c == 3", "also !, && and ||; and binds before or"],
  ["example", "a word alone is searched for in all text columns"],
];

function Syntax() {
  return (
    <details class="syntax">
      <summary>Syntax</summary>
      <dl>
        {SYNTAX.map(([example, about]) => (
          <div key={example}>
            <dt>
              <code>{example}</code>
            </dt>
            <dd>{about}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

/** A filter expression, with suggestions. It is applied at Enter, not at each key. */
export function SearchBox({ label, value, columns, example, apply }: Properties) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  const [cursor, setCursor] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const [mistake, setMistake] = useState<string | null>(null);
  useEffect(() => {
    setText(value);
    setMistake(errorOf(value, columns));
  }, [value, columns]);

  const found = suggest(text, cursor, columns);
  const isListed = isOpen && found.list.length > 0;
  const submit = (where: string): void => {
    const wrong = errorOf(where, columns);
    setMistake(wrong);
    setOpen(false);
    if (wrong === null) apply(where.trim());
  };
  const complete = (index: number): void => {
    const next = `${text.slice(0, found.from)}${found.list[index]!.text} `;
    setText(next + text.slice(found.to).trimStart());
    setCursor(next.length);
    setChosen(-1);
    const element = input.current!;
    element.focus();
    requestAnimationFrame(() => element.setSelectionRange(next.length, next.length));
  };
  const onInput = (): void => {
    const element = input.current!;
    setText(element.value);
    setCursor(element.selectionStart ?? element.value.length);
    setOpen(true);
    setChosen(-1);
    setMistake(null);
  };
  const onKey = (event: KeyboardEvent): void => {
    const count = found.list.length;
    if (event.key === "Escape") setOpen(false);
    else if (event.key === "ArrowDown" && !isListed) setOpen(true);
    else if (event.key === "ArrowDown") setChosen((chosen + 1) % count);
    else if (event.key === "ArrowUp" && isListed) setChosen((chosen - 1 + count) % count);
    else if ((event.key === "Enter" || event.key === "Tab") && isListed && chosen >= 0) {
      complete(chosen);
    } else return;
    if (event.key !== "Escape") event.preventDefault();
  };
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        submit(text);
      }}
    >
      <div class="search-field">
        <input
          ref={input}
          type="text"
          value={text}
          placeholder={example}
          aria-label={label}
          autoComplete="off"
          autoCapitalize="off"
          spellcheck={false}
          role="combobox"
          aria-expanded={isListed}
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          aria-invalid={mistake !== null}
          aria-describedby={mistake === null ? undefined : `${id}-error`}
          aria-activedescendant={isListed && chosen >= 0 ? `${id}-${chosen}` : undefined}
          onInput={onInput}
          onKeyDown={onKey}
          onBlur={() => setOpen(false)}
        />
        <ul
          id={`${id}-list`}
          role="listbox"
          aria-label="Suggestions"
          class="suggestions"
          hidden={!isListed}
        >
          {found.list.map((each, index) => (
            <li
              key={each.text}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === chosen}
              onPointerDown={(event) => {
                event.preventDefault();
                complete(index);
              }}
            >
              <code>{each.text}</code>
              <span>{each.about}</span>
            </li>
          ))}
        </ul>
      </div>
      <button type="submit" class="is-main">
        Filter
      </button>
      {value !== "" && (
        <button type="button" onClick={() => apply("")}>
          Clear
        </button>
      )}
      <Syntax />
      {mistake !== null && (
        <p class="field-error" id={`${id}-error`} role="alert">
          {mistake}
        </p>
      )}
    </form>
  );
}
