//! The text of a filter, close to Wireshark's display filters.
//!
//! ```text
//! or      = and { ("or" | "||") and }
//! and     = not { ("and" | "&&") not }
//! not     = ("not" | "!") not | "(" or ")" | test
//! test    = column op value | column "in" "{" value { "," value } "}" | text
//! ```

use std::fmt;

/// Characters of a filter.
const TEXT_LEN_MAX: usize = 4096;

/// How deep parentheses may be.
const DEPTH_MAX: usize = 64;

/// How a column is compared with a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    Contains,
}

/// A filter as it is written.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    Compare { column: String, comparison: Comparison, value: Literal },
    In { column: String, values: Vec<Literal> },
    Text(String),
}

/// A value as it is written.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Literal {
    pub text: String,
    /// Whether it has quotation marks: then it is text and nothing else.
    pub is_quoted: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Word(String),
    Quoted(String),
    Operator(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "{word:?}"),
            Self::Quoted(text) => write!(f, "the text {text:?}"),
            Self::Operator(operator) => write!(f, "{operator:?}"),
        }
    }
}

/// Longest first.
const OPERATORS: [&str; 15] =
    ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "=", "!", "(", ")", "{", "}", ","];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    if text.len() > TEXT_LEN_MAX {
        return Err(format!("{} bytes; wanted: {TEXT_LEN_MAX} at most", text.len()));
    }
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '"' || first == '\'' {
            let (text, len) = quoted(rest, first)?;
            tokens.push(Token::Quoted(text));
            rest = rest.get(len..).unwrap_or_default();
        } else if let Some(operator) = OPERATORS.iter().find(|one| rest.starts_with(**one)) {
            tokens.push(Token::Operator(operator));
            rest = rest.get(operator.len()..).unwrap_or_default();
        } else {
            let ends = |c: char| c.is_whitespace() || "\"'=!<>&|(){},".contains(c);
            let len = rest.find(ends).unwrap_or(rest.len()).max(first.len_utf8());
            let (word, after) = rest.split_at(len);
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// Text in quotation marks, in which `\` makes the next character an ordinary one; and its length
/// with those.
fn quoted(text: &str, mark: char) -> Result<(String, usize), String> {
    let mut inside = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => inside.extend(characters.next().map(|(_, next)| next)),
            _ if character == mark => return Ok((inside, at + mark.len_utf8())),
            _ => inside.push(character),
        }
    }
    Err(format!("{text}: the quotation mark is not closed"))
}

/// Words that are no values and no columns.
const KEYWORDS: [&str; 5] = ["and", "or", "not", "in", "contains"];

fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// Reads a filter.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    if parser.tokens.is_empty() {
        return Ok(Expression::And(Vec::new()));
    }
    let expression = parser.either()?;
    match parser.peek() {
        None => Ok(expression),
        Some(token) => Err(format!("{token} is not expected here; wanted: and, or, or the end")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    /// Takes the next token if it is this operator, or this word in any case.
    fn take(&mut self, operator: &str, word: &str) -> bool {
        let is_it = match self.peek() {
            Some(Token::Operator(seen)) => *seen == operator,
            Some(Token::Word(seen)) => !word.is_empty() && seen.eq_ignore_ascii_case(word),
            _ => false,
        };
        self.at += usize::from(is_it);
        is_it
    }

    fn either(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.both()?];
        while self.take("||", "or") {
            parts.push(self.both()?);
        }
        Ok(one_or(parts, Expression::Or))
    }

    fn both(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.single()?];
        while self.take("&&", "and") {
            parts.push(self.single()?);
        }
        Ok(one_or(parts, Expression::And))
    }

    fn single(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nested too deep; wanted: {DEPTH_MAX} levels at most"));
        }
        let expression = if self.take("!", "not") {
            Expression::Not(Box::new(self.single()?))
        } else if self.take("(", "") {
            let inside = self.either()?;
            if !self.take(")", "") {
                return Err(String::from("a parenthesis is not closed; wanted: )"));
            }
            inside
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn test(&mut self) -> Result<Expression, String> {
        let column = match self.next() {
            Some(Token::Quoted(text)) if self.is_at_comparison() => {
                return Err(format!("{text:?}: a column is written without quotation marks"));
            }
            Some(Token::Quoted(text)) => return Ok(Expression::Text(text)),
            Some(Token::Word(word)) if !is_keyword(&word) => word,
            Some(token) => return Err(format!("{token} is not expected here; {WANTED}")),
            None => return Err(format!("the filter ends here; {WANTED}")),
        };
        if self.take("", "in") {
            return Ok(Expression::In { column, values: self.set()? });
        }
        let comparison = match self.peek() {
            Some(Token::Operator("==")) => Comparison::Equal,
            Some(Token::Operator("=")) => {
                return Err(format!("{column} = is not a comparison; wanted: {column} == value"));
            }
            Some(Token::Operator("!=")) => Comparison::Unequal,
            Some(Token::Operator("<")) => Comparison::Less,
            Some(Token::Operator("<=")) => Comparison::AtMost,
            Some(Token::Operator(">")) => Comparison::More,
            Some(Token::Operator(">=")) => Comparison::AtLeast,
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("contains") => {
                Comparison::Contains
            }
            _ => return Ok(Expression::Text(column)),
        };
        self.at += 1;
        let value = self.value()?;
        Ok(Expression::Compare { column, comparison, value })
    }

    fn is_at_comparison(&self) -> bool {
        matches!(self.peek(), Some(Token::Operator("==" | "!=" | "<" | "<=" | ">" | ">=" | "=")))
    }

    fn value(&mut self) -> Result<Literal, String> {
        match self.next() {
            Some(Token::Word(text)) if !is_keyword(&text) => Ok(Literal { text, is_quoted: false }),
            Some(Token::Quoted(text)) => Ok(Literal { text, is_quoted: true }),
            Some(token) => Err(format!("{token} is not expected here; wanted: a value")),
            None => Err(String::from("the filter ends here; wanted: a value")),
        }
    }

    fn set(&mut self) -> Result<Vec<Literal>, String> {
        if !self.take("{", "") {
            return Err(String::from("wanted after `in`: values in braces, such as {80, 443}"));
        }
        let mut values = vec![self.value()?];
        while self.take(",", "") {
            values.push(self.value()?);
        }
        if !self.take("}", "") {
            return Err(String::from(
                "a brace is not closed, or a comma is missing in it; wanted: }",
            ));
        }
        Ok(values)
    }
}

const WANTED: &str = "wanted: a column, such as dst_port == 443, or text that is searched for";

fn one_or(mut parts: Vec<Expression>, all: fn(Vec<Expression>) -> Expression) -> Expression {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            all(parts)
        }
    }
}
