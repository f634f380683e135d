import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface Properties {
  title: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}

export function Panel({ title, note, actions, class: name, children }: Properties) {
  const id = useId();
  return (
    <section class={`panel ${name ?? ""}`} aria-labelledby={id}>
      <header class="panel-head">
        <h2 id={id}>{title}</h2>
        {note && <p class="note">{note}</p>}
        {actions && <div class="panel-actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

export interface Figure {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  tone?: "warning" | "error" | "ok";
}

/** A line of key figures. */
export function Figures({ list }: { list: Figure[] }) {
  return (
    <dl class="figures">
      {list.map((figure) => (
        <div key={figure.label} class={figure.tone ? `tone-${figure.tone}` : undefined}>
          <dt>{figure.label}</dt>
          <dd>
            <span class="figure-value">{figure.value}</span>
            {figure.note && <span class="note">{figure.note}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

interface ChoiceProperties {
  label: string;
  options: { name: string; label: string; href: string }[];
  chosen: string;
}

/** Links of which one is the page that is shown. */
export function Choice({ label, options, chosen }: ChoiceProperties) {
  return (
    <nav class="choice" aria-label={label}>
      {options.map((option) => (
        <a
          key={option.name}
          href={option.href}
          aria-current={option.name === chosen ? "true" : undefined}
        >
          {option.label}
        </a>
      ))}
    </nav>
  );
}
