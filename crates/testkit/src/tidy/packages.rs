//! Which packages people are asked to install.

use super::Finding;
use crate::repository::File;
use crate::source::numbered;

/// Our name, which on an index of packages is not ours: whoever registers it there runs code as
/// everybody who follows our advice. From a clone it is `pip install .`.
const NAME: &str = "wirelens";

/// How many words after the command are its arguments at most; prose goes on behind them.
const ARGUMENT_COUNT_MAX: usize = 12;

/// Nothing says that Wirelens is installed from an index.
#[must_use]
pub fn foreign_package(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let words = words(file.text().unwrap_or_default());
        let commands = words.windows(2).enumerate().filter(|(_, pair)| is_install(pair));
        for (at, _) in commands {
            let arguments = &words[at + 2..];
            let count = arguments.iter().take(ARGUMENT_COUNT_MAX);
            let end = count.clone().position(|word| word.ends_command);
            let mut arguments = count.take(end.map_or(ARGUMENT_COUNT_MAX, |end| end + 1));
            if let Some(word) = arguments.find(|word| is_ours(word.text)) {
                let seen = format!("`{NAME}` from an index of packages, where it is not ours");
                let wanted = "`pip install .` or `'.[train]'`, in a clone";
                findings.push(Finding::new(file, word.line, seen, wanted));
            }
        }
        // An extra is told only to be installed, whatever stands before it.
        for (line, text) in numbered(file.text().unwrap_or_default()) {
            let mut rests = text.split(NAME).skip(1).filter_map(|rest| rest.strip_prefix('['));
            if rests.any(|rest| rest.starts_with(|c: char| c.is_alphabetic() || c == '{')) {
                let seen = format!("an extra of `{NAME}`, as an index of packages would have it");
                findings.push(Finding::new(file, line, seen, "`'.[train]'`, in a clone"));
            }
        }
    }
    findings
}

struct Word<'a> {
    text: &'a str,
    line: usize,
    ends_command: bool,
}

/// A text's words without quotes and the marks that begin lines of comments.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    for (number, line) in numbered(text) {
        let line = line.trim_start().trim_start_matches(['/', '!', '#', '*', '>']);
        for word in line.split_whitespace().filter(|word| *word != "\\") {
            let text = word.trim_matches(['\'', '"', '`', '(', ')', ',', '.', ';', ':', '\\']);
            let text = if text.is_empty() { word } else { text };
            let ends_command = word.contains(['`', ')', ';', '&', '|', '#', '"', '…']);
            words.push(Word { text, line: number, ends_command });
        }
        // A command goes on in the next line only behind a backslash.
        if let Some(last) = words.last_mut().filter(|last| last.line == number) {
            last.ends_command |= !line.ends_with('\\');
        }
    }
    words
}

/// `pip install`, and what is typed for it.
fn is_install(pair: &[Word<'_>]) -> bool {
    let program = pair[0].text.rsplit('/').next().unwrap_or_default();
    let installs = matches!(program, "pip" | "pip3" | "pipx" | "uv") && pair[1].text == "install";
    installs || (matches!(program, "uv" | "poetry" | "uvx") && pair[1].text == "add")
}

/// The bare name, or one with an extra or a version.
fn is_ours(word: &str) -> bool {
    word.strip_prefix(NAME).is_some_and(|rest| {
        rest.is_empty() || rest.starts_with(['[', '=', '<', '>', '~', '!', '@', '\'', '"'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_name_on_an_index_is_found() {
        let found = |text: &str| foreign_package(&[File::new("a.md", text)]).len();
        for bad in [
            format!("$ pip install {NAME}\n"),
            format!("try `{{}} -m pip install -q {NAME}`\n"),
            format!("venv/bin/pip3 install --upgrade numpy '{NAME}==0.3'\n"),
            format!("//! pip install \\\n//!   {NAME}\n"),
            format!("uv add {NAME}\n"),
            format!("it needs '{NAME}[train]', and PyTorch\n"),
            format!("f\"pip install '{NAME}[{{extra}}]'\"\n"),
        ] {
            assert!(found(&bad) > 0, "{bad}");
        }
        for good in [
            "$ pip install .        # in a clone\n".to_owned(),
            format!("pip install '.[train]' && {NAME} train classify\n"),
            format!("`pip install .` makes the command `{NAME}`\n"),
            format!("pip install target/wheels/{NAME}-*.whl\n"),
            format!("$ pip install '.[polars]'\n>>> import {NAME}\n"),
            format!("the script that pip installs: {NAME}\n"),
            format!("{NAME}[0]\n"),
        ] {
            assert_eq!(found(&good), 0, "{good}");
        }
    }
}
