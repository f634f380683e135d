// The filter language: compiles an expression into a test of rows. The server has the same
// language in Rust; `cases/filter.json` holds both to the same answers.

import { comparison, inSet, textSearch, type Test, type Value } from "./comparison.ts";
import { fieldOf, nearestName } from "./fields.ts";
import { type Column } from "./source.ts";
import { FilterError, type Token, tokens } from "./tokens.ts";

const COMPARISONS = ["==", "!=", "<=", ">=", "<", ">"];
/** Deeper nesting is refused, as it is in the server, where the stack is bounded. */
const DEPTH_MAX = 64;

class Parser {
  private at = 0;
  private depth = 0;

  constructor(
    private readonly list: Token[],
    private readonly columns: readonly Column[],
  ) {}

  whole(): Test {
    const test = this.or();
    const rest = this.peek();
    if (rest.kind !== "end") {
      throw new FilterError(
        `unexpected ${shown(rest)} at character ${rest.at + 1}; expected "and", "or" or the end` +
          " (put text with spaces in quotation marks)",
        rest.at,
      );
    }
    return test;
  }

  private or(): Test {
    const tests = [this.and()];
    while (this.take("or", "||")) tests.push(this.and());
    return tests.length === 1 ? tests[0]! : (row) => tests.some((test) => test(row));
  }

  private and(): Test {
    const tests = [this.not()];
    while (this.take("and", "&&")) tests.push(this.not());
    return tests.length === 1 ? tests[0]! : (row) => tests.every((test) => test(row));
  }

  private not(): Test {
    const token = this.peek();
    this.depth += 1;
    if (this.depth > DEPTH_MAX) {
      throw new FilterError(`more than ${DEPTH_MAX} levels of "not" and brackets`, token.at);
    }
    const test = this.take("not", "!") ? negated(this.not()) : this.primary();
    this.depth -= 1;
    return test;
  }

  private primary(): Test {
    const token = this.next();
    if (token.kind === "sign" && token.text === "(") {
      const test = this.or();
      this.expect(")");
      return test;
    }
    if (token.kind === "quoted") {
      this.refuseOperator(token);
      return textSearch(token.text, this.columns);
    }
    if (token.kind === "word" && !isKeyword(token)) {
      return this.isOperator() ? this.compared(token) : textSearch(token.text, this.columns);
    }
    throw new FilterError(
      `unexpected ${shown(token)} at character ${token.at + 1}; expected a column, text or "("`,
      token.at,
    );
  }

  private compared(name: Token): Test {
    const field = fieldOf(name.text, this.columns);
    if (field === null) {
      const nearest = nearestName(name.text, this.columns);
      const hint = nearest === null ? "" : `; try "${nearest}"`;
      throw new FilterError(`no column "${name.text}" in this table${hint}`, name.at);
    }
    const operator = this.next();
    const sign = operator.text.toLowerCase();
    if (sign === "in") return inSet(field, this.set());
    return comparison(field, sign, this.value());
  }

  private set(): Value[] {
    this.expect("{");
    const values = [this.value()];
    while (this.take(",")) values.push(this.value());
    this.expect("}");
    return values;
  }

  private value(): Value {
    const token = this.next();
    if (token.kind === "quoted" || (token.kind === "word" && !isKeyword(token))) {
      return { text: token.text, isQuoted: token.kind === "quoted", at: token.at };
    }
    const where = token.kind === "end" ? "at the end" : `at character ${token.at + 1}`;
    throw new FilterError(`a value is missing ${where}; seen ${shown(token)}`, token.at);
  }

  private refuseOperator(token: Token): void {
    if (!this.isOperator()) return;
    throw new FilterError(
      `"${token.text}" is text, and a column is compared; write the column without quotation marks`,
      token.at,
    );
  }

  private isOperator(): boolean {
    const token = this.peek();
    if (token.kind === "sign") return COMPARISONS.includes(token.text);
    return token.kind === "word" && ["contains", "in"].includes(token.text.toLowerCase());
  }

  private expect(sign: string): void {
    const token = this.next();
    if (token.kind === "sign" && token.text === sign) return;
    const where = token.kind === "end" ? "at the end" : `at character ${token.at + 1}`;
    throw new FilterError(`"${sign}" is missing ${where}; seen ${shown(token)}`, token.at);
  }

  private take(...texts: string[]): boolean {
    const token = this.peek();
    if (token.kind === "quoted" || !texts.includes(token.text.toLowerCase())) return false;
    this.at += 1;
    return true;
  }

  private peek(): Token {
    return this.list[this.at]!;
  }

  private next(): Token {
    const token = this.peek();
    if (token.kind !== "end") this.at += 1;
    return token;
  }
}

function isKeyword(token: Token): boolean {
  return ["and", "or", "not", "contains", "in"].includes(token.text.toLowerCase());
}

function shown(token: Token): string {
  return token.kind === "end" ? "the end" : `"${token.text}"`;
}

function negated(test: Test): Test {
  return (row) => !test(row);
}

/** Throws a `FilterError` that says what was seen and what was expected. */
export function compileFilter(where: string, columns: readonly Column[]): Test {
  if (where.trim() === "") return () => true;
  return new Parser(tokens(where), columns).whole();
}
