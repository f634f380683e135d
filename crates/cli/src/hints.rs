//! What a user of other tools may have meant: a line after a usage error.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::Arguments;
use crate::failure::Failure;
use crate::packetlog;

/// Commands of other tools, and of ours in another place.
const ELSEWHERE: [(&str, &str); 8] = [
    ("version", "wirelens --version"),
    ("query", "wirelens packetlog query"),
    ("record", "wirelens packetlog record"),
    ("capture", "wirelens packetlog record -i eth0 -o log/"),
    ("serve", "wirelens run --page"),
    ("page", "wirelens run --page"),
    ("monitor", "wirelens run --view"),
    ("interfaces", "wirelens devices"),
];

/// Shipped models that classify flows, the usual one first.
const MODELS: [&str; 4] = ["services", "categories", "devices", "video-rate"];

/// Flags of tcpdump and tshark that print packets.
const PRINTING: [&str; 8] = ["-v", "-A", "-x", "-X", "-e", "-V", "-S", "-T"];

/// Suffixes of captures, for words that could be a filter as well.
const SUFFIXES: [&str; 8] = ["pcap", "pcapng", "cap", "dump", "dmp", "gz", "zst", "snoop"];

/// Leaves out what is understood without effect: addresses and ports are never resolved to names,
/// which is what `-nn` of tcpdump asks for.
pub(crate) fn understood(words: Vec<OsString>) -> Vec<OsString> {
    let is_empty_wish = |word: &OsString| ["-nn", "-nnn"].iter().any(|known| word == known);
    words.into_iter().filter(|word| !is_empty_wish(word)).collect()
}

/// Refuses captures among the words of a filter.
pub(crate) fn refuse_captures(expression: &[String]) -> Result<(), Failure> {
    match expression.iter().find(|word| is_capture(word)) {
        None => Ok(()),
        Some(word) => Err(Failure::usage(format_args!(
            "{word} is a file, and words without a flag are a filter; each capture is given with \
             -r: -r {word}"
        ))),
    }
}

/// Whether a word of a filter is a capture instead.
fn is_capture(word: &str) -> bool {
    let path = Path::new(word);
    let suffix = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let is_named_so = SUFFIXES.iter().any(|known| suffix.starts_with(known));
    (is_named_so || word.contains('/')) && path.is_file()
}

/// What may have been meant.
pub(crate) fn of(words: &[OsString], error: &clap::Error) -> Option<String> {
    let typed = CommandWords::of(words);
    if let Some(hint) = packetlog::hint(words, error) {
        return Some(hint.to_owned());
    }
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.as_str(),
        _ => "",
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => typed.of_command(error),
        ErrorKind::MissingRequiredArgument => typed.missing(error),
        ErrorKind::UnknownArgument if typed.command.is_none() => Some(String::from(
            "A command comes first: `wirelens info -r FILE`, `wirelens top -i eth0`",
        )),
        ErrorKind::UnknownArgument => of_flag(argument).map(str::to_owned),
        ErrorKind::ArgumentConflict if argument.starts_with("--interface") => Some(String::from(
            "A run captures on one interface, or with -i any on all; use one run per interface",
        )),
        ErrorKind::ValueValidation if argument.starts_with("--rows") && typed.has("-nr") => {
            Some(String::from("-n is the number of rows here; a capture is read with -r FILE"))
        }
        _ => None,
    }
}

/// The words of a command line.
struct CommandWords<'a> {
    words: Vec<&'a str>,
    command: Option<&'a str>,
}

impl<'a> CommandWords<'a> {
    fn of(words: &'a [OsString]) -> Self {
        let words: Vec<_> = words.iter().skip(1).filter_map(|word| word.to_str()).collect();
        let arguments = Arguments::command();
        let known = |word: &&&str| arguments.find_subcommand(word).is_some();
        let command = words.iter().find(known).copied();
        Self { words, command }
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// Of a word that is no command.
    fn of_command(&self, error: &clap::Error) -> Option<String> {
        let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
            return None;
        };
        if Path::new(word).exists() {
            return Some(format!(
                "{word} is a file: captures are given with -r, as in `wirelens info -r {word}`"
            ));
        }
        if self.command.is_some() {
            return None;
        }
        let (_, ours) = ELSEWHERE.iter().find(|(other, _)| other == word)?;
        Some(format!("Try `{ours}`"))
    }

    /// Of what has to be given.
    fn missing(&self, error: &clap::Error) -> Option<String> {
        let lacks = |name: &str| match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => missing.iter().any(|it| it.contains(name)),
            _ => false,
        };
        if lacks("--interface") {
            return Some(String::from("This option needs an interface: give one with -i"));
        }
        if lacks("--config") && self.command == Some("run") {
            return Some(String::from(
                "`wirelens run --init > wirelens.toml` writes settings to begin with; `wirelens \
                 run --page` and `--view` need none",
            ));
        }
        if lacks("--model") && self.command == Some("classify") {
            return Some(format!(
                "Shipped models: {}; as in `wirelens classify -r FILE --model services`",
                MODELS.join(", ")
            ));
        }
        None
    }
}

/// Of a flag that is not known.
fn of_flag(argument: &str) -> Option<&'static str> {
    let is_printing = PRINTING.iter().any(|flag| argument.starts_with(flag));
    match argument {
        _ if argument.starts_with("-w") => Some(
            "Results are written with -o FILE; packets with `wirelens packetlog record -o DIR`, \
             and exported from there with `wirelens packetlog query -w FILE`",
        ),
        "-W" => Some("Results are written with -o FILE"),
        "-P" => Some("Captures are read with -r FILE"),
        "-i" => Some("This command does not capture on interfaces; nPrint's -i is --icmp here"),
        _ if is_printing => Some(
            "Packets are not printed one by one: `wirelens packetlog query -w FILE` cuts them out \
             for tcpdump or Wireshark, `--help` lists what can be printed",
        ),
        _ => None,
    }
}
