//! A run of each application over traffic that the input makes: no fault, every packet is accounted
//! for, and its rows are read back.
//!
//! Input: two bytes that choose its settings, then traffic, as `fuzz::traffic` reads it.

use std::fs;
use std::path::{Path, PathBuf};

use capture::ReadOptions;
use engine::Stage as _;
use engine::census::Census;
use fuzz::input::Input;
use fuzz::outputs::{Form, check};
use fuzz::place::fresh;
use fuzz::run::run;
use fuzz::traffic::{Captures, captures};
use packet::Source as _;
use session::run::SessionOutcome;

/// Formats of rows, and how they are read back.
const FORMATS: [(&str, Form); 4] =
    [("jsonl", Form::JsonLines), ("csv", Form::Csv), ("arrow", Form::Any), ("parquet", Form::Any)];

/// What one input asks for.
pub(crate) struct Case {
    /// The folder that captures are in, and rows are written to.
    pub(crate) folder: PathBuf,
    /// Which settings.
    pub(crate) choice: u16,
    /// How many packets there are.
    pub(crate) packet_count: u64,
}

impl Case {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut input = Input::new(bytes);
        let choice = input.u16();
        let Captures { first, second, packet_count } = captures(&mut input);
        let folder = fresh("run");
        fs::write(folder.join("first.pcapng"), first).expect("room for a capture");
        fs::write(folder.join("second.pcapng"), second).expect("room for a capture");
        Self { folder, choice, packet_count }
    }

    /// Whether a bit of the choice is set.
    pub(crate) const fn bit(&self, number: u16) -> bool {
        self.choice >> number & 1 == 1
    }

    pub(crate) fn second(&self) -> String {
        self.folder.join("second.pcapng").display().to_string()
    }

    /// What every run has: its capture, and one thread or two.
    pub(crate) fn head(&self) -> String {
        let capture = self.folder.join("first.pcapng");
        let threads = if self.bit(15) { 2 } else { 1 };
        format!(
            "[input]\nread = [{:?}]\n[run]\nseed = 1\nthreads = {threads}\nquarantine = \"\"\n",
            capture.display().to_string()
        )
    }

    /// The table of an application, with where its rows go.
    fn table(&self, name: &str) -> String {
        let (format, _) = FORMATS[usize::from(self.choice >> 13 & 3)];
        let output = output(&self.folder, name, format);
        format!("[{name}]\noutput = {:?}\n", output.display().to_string())
    }

    /// Runs it, and reads what it has written; every packet was handed out.
    pub(crate) fn run(&self, settings: &str) -> Option<SessionOutcome> {
        let outcome = run(settings)?;
        assert_eq!(outcome.received.report.received, self.packet_count);
        for (format, wanted) in FORMATS {
            for name in outcome.closings.iter().map(|(name, _)| name) {
                check(&output(&self.folder, name, format), wanted);
            }
        }
        Some(outcome)
    }
}

fn output(folder: &Path, name: &str, format: &str) -> PathBuf {
    folder.join(format!("{name}.{format}"))
}

fn one_of<'a>(values: &[&'a str], choice: u16) -> &'a str {
    values[usize::from(choice) % values.len()]
}

fn top_table(case: &Case) -> String {
    let by = ["source", "destination", "pair", "port", "protocol", "flow", "name"];
    let by = one_of(&by, case.choice & 7);
    let window = one_of(&["", "window = \"1ms\"\n", "window = \"10s\"\n"], case.choice >> 3 & 3);
    let rows = case.choice >> 5 & 7;
    format!("{}by = {by:?}\n{window}rows = {rows}\nmax-keys = 64\n", case.table("top"))
}

pub(crate) fn top(bytes: &[u8]) {
    let case = Case::new(bytes);
    case.run(&(case.head() + &top_table(&case)));
}

fn flows_table(case: &Case) -> String {
    let mut table = case.table("flows");
    for (number, line) in [
        (0, "stats = true\n"),
        (1, "macs = true\n"),
        (2, "read-names = true\n"),
        (3, "window = \"1s\"\n"),
        (4, "names = \"nfstream\"\n"),
        (5, "idle-timeout = \"1s\"\n"),
        (6, "active-timeout = \"2s\"\n"),
        (7, "max-flows = 64\n"),
        (8, "partition = \"hour\"\n"),
        (9, "rotate-time = \"1s\"\n"),
    ] {
        if case.bit(number) {
            table.push_str(line);
        }
    }
    table
}

pub(crate) fn flows(bytes: &[u8]) {
    let case = Case::new(bytes);
    case.run(&(case.head() + &flows_table(&case)));
}

fn classify_table(case: &Case) -> String {
    let model = one_of(&["services", "categories", "devices"], case.choice & 3);
    let mut table = case.table("classify");
    table.push_str(&format!("model = {model:?}\nmax-flows = 64\nwaiting-max = 64\n"));
    if case.bit(2) && model == "devices" {
        table.push_str("by = \"host\"\n");
    }
    if case.bit(3) {
        table.push_str("drift-flows = 4\n");
    }
    table
}

pub(crate) fn classify(bytes: &[u8]) {
    let case = Case::new(bytes);
    case.run(&(case.head() + &classify_table(&case)));
}

fn cca_table(case: &Case) -> String {
    let every = one_of(&["1s", "1ms", "10s", "100ms"], case.choice & 3);
    let slot = one_of(&["1ms", "100us", "10ms"], case.choice >> 2 & 3);
    let rows = case.choice >> 4 & 3;
    let mut table = case.table("cca");
    table.push_str(&format!("every = {every:?}\nslot = {slot:?}\nrows = {rows}\nmax-flows = 64\n"));
    table
}

pub(crate) fn cca(bytes: &[u8]) {
    let case = Case::new(bytes);
    let model = if case.bit(6) { "model = \"cca-onetap\"\n" } else { "" };
    case.run(&(case.head() + &cca_table(&case) + model));
}

pub(crate) fn cca_taps(bytes: &[u8]) {
    let case = Case::new(bytes);
    let mut table = cca_table(&case);
    table.push_str(&format!("egress = {:?}\n", case.second()));
    for (number, line) in [
        (6, "model = \"cca\"\n"),
        (7, "passed = \"first\"\n"),
        (8, "sample = 0.5\n"),
        (9, "egress-offset = \"-5ms\"\n"),
    ] {
        if case.bit(number) {
            table.push_str(line);
        }
    }
    case.run(&(case.head() + &table));
}

fn latency_table(case: &Case) -> String {
    let mut table = case.table("latency");
    let by = one_of(&["flow", "destination", "packet"], case.choice & 3);
    table.push_str(&format!("by = {by:?}\nmax-flows = 64\nmax-waiting = 64\n"));
    if case.bit(2) && by == "destination" {
        table.push_str("every = \"10ms\"\n");
    }
    table
}

pub(crate) fn latency(bytes: &[u8]) {
    let case = Case::new(bytes);
    case.run(&(case.head() + &latency_table(&case)));
}

pub(crate) fn latency_taps(bytes: &[u8]) {
    let case = Case::new(bytes);
    let offset = if case.bit(3) { "egress-offset = \"0ms\"\n" } else { "" };
    let egress = format!("egress = {:?}\n", case.second());
    case.run(&(case.head() + &latency_table(&case) + &egress + offset));
}

fn l4s_table(case: &Case) -> String {
    let every = if case.bit(0) { "every = \"10ms\"\n" } else { "" };
    let to = "to = [\"192.0.2.1:443\", \"192.0.2.1:80\"]\n";
    format!("{}model = \"l4s\"\n{to}{every}", case.table("l4s"))
}

pub(crate) fn l4s(bytes: &[u8]) {
    let case = Case::new(bytes);
    case.run(&(case.head() + &l4s_table(&case)));
}

fn small_tables(case: &Case) -> String {
    let every = one_of(&["1s", "1ms", "1h"], case.choice & 3);
    format!("{}every = {every:?}\n{}", case.table("traffic"), case.table("unanswered"))
}

pub(crate) fn traffic(bytes: &[u8]) {
    let case = Case::new(bytes);
    case.run(&(case.head() + &small_tables(&case)));
}

/// Every application in one pass, with a rule that joins some.
pub(crate) fn all(bytes: &[u8]) {
    let case = Case::new(bytes);
    let log = case.folder.join("log");
    let tables = [
        top_table(&Case { choice: case.choice & 0xe0ff, folder: case.folder.clone(), ..case }),
        format!("{}read-names = true\nmax-flows = 64\n", case.table("flows")),
        classify_table(&case),
        format!("[packetlog]\noutput = {:?}\n", log.display().to_string()),
        cca_table(&case),
        latency_table(&case),
        l4s_table(&case),
        small_tables(&case),
        String::from("[[rule]]\nbytes = \"1K\"\nkeep = \"full\"\n"),
        String::from("[[rule]]\nservice = [\"ssh\"]\nkeep = \"full\"\ncca = true\n"),
    ];
    case.run(&(case.head() + &tables.concat()));
}

/// The same over bytes that are a capture, or none.
pub(crate) fn any_capture(bytes: &[u8]) {
    let folder = fresh("run");
    let capture = folder.join("any.pcap");
    fs::write(&capture, bytes).expect("room for a capture");
    let options = ReadOptions::default();
    if capture::open(&capture::Input::File(capture.clone()), &options).is_err() {
        return;
    }
    let mut settings = format!("[input]\nread = [{:?}]\n", capture.display().to_string());
    settings.push_str("[run]\nthreads = 1\nquarantine = \"\"\n");
    for (name, more) in [
        ("flows", "read-names = true\nmax-flows = 64\n"),
        ("top", "by = \"pair\"\nwindow = \"1s\"\nmax-keys = 64\n"),
        ("latency", "max-flows = 64\nmax-waiting = 64\n"),
        ("cca", "max-flows = 64\n"),
        ("traffic", ""),
    ] {
        let output = output(&folder, name, "csv").display().to_string();
        settings.push_str(&format!("[{name}]\noutput = {output:?}\n{more}"));
    }
    if let Some(outcome) = run(&settings) {
        for (name, _) in &outcome.closings {
            check(&output(&folder, name, "csv"), Form::Csv);
        }
    }
}

/// What `info` counts of a capture.
pub(crate) fn info(bytes: &[u8]) {
    let case = Case::new(bytes);
    let capture = capture::Input::File(case.folder.join("first.pcapng"));
    let mut source = capture::open(&capture, &ReadOptions::default()).expect("a capture");
    let mut census = Census::default();
    while let Some(batch) = source.next_batch() {
        census.on_batch(&batch);
    }
    assert_eq!(census.total.packets, case.packet_count);
    let of_links: u64 = census.links.values().map(|tally| tally.packets).sum();
    let of_networks: u64 = census.networks.values().map(|tally| tally.packets).sum();
    assert_eq!((of_links, of_networks), (case.packet_count, case.packet_count));
    let _ = (census.duration(), census.has_time());
}
