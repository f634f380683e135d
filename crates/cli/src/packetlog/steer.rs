//! What is asked of a recorder that runs, and which modes there are.

use std::io::{self, Write as _};

use comfy_table::{Table, presets};
use serde_json::Value;
use session::packetlog::settings::Settings;
use session::packetlog::socket;

use super::args::{ModeArguments, ModesArguments, StatusArguments, StatusFormat};
use crate::failure::{Failure, Status};
use crate::table;

/// `wirelens packetlog mode`.
pub(super) fn mode(arguments: &ModeArguments) -> Result<Status, Failure> {
    let folder = &arguments.folder.folder;
    // A name is a word of the request: one with a space in it would be two.
    if arguments.mode.split_whitespace().count() != 1 {
        let wanted = "wanted: one of those that `wirelens packetlog modes` lists";
        return Err(Failure::usage(format_args!("{:?} is not a mode; {wanted}", arguments.mode)));
    }
    let reply = socket::ask_json(folder, &format!("mode {}", arguments.mode))?;
    let in_force = reply["mode"].as_str().unwrap_or_default();
    if in_force == arguments.mode {
        eprintln!("mode {in_force}");
    } else {
        let waits_for = words(&reply["waits_for"]);
        eprintln!(
            "mode {in_force} stays in force until {waits_for} has recovered; {} follows then",
            arguments.mode
        );
    }
    Ok(Status::Fine)
}

/// `wirelens packetlog status`.
pub(super) fn status(arguments: &StatusArguments) -> Result<Status, Failure> {
    let folder = &arguments.folder.folder;
    let text = match arguments.format {
        StatusFormat::Prometheus => socket::ask(folder, "metrics")?,
        StatusFormat::Json => format!("{}\n", socket::ask_json(folder, "status")?),
        StatusFormat::Table => lines(&socket::ask_json(folder, "status")?),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Fine)
}

/// `wirelens packetlog modes`.
pub(super) fn modes(arguments: &ModesArguments) -> Result<Status, Failure> {
    let settings = Settings::read(arguments.settings.as_deref())?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["mode", "anomalous", "benign", "level", "for"]);
    for mode in &settings.modes {
        let own = mode.classes.iter().map(|(class, kept)| format!("; {class} {kept}"));
        let anomalous = format!("{}{}", mode.anomalous, own.collect::<String>());
        let (benign, level) = (mode.benign.to_string(), mode.level.to_string());
        table.add_row([&mode.name, &anomalous, &benign, &level, &mode.purpose]);
    }
    writeln!(io::stdout(), "{}", table::fitted(&mut table, &["level"]))?;
    eprintln!(
        "anomalous is the verdict of the model; the shipped one recognises scans, floods and \
         spoofing, and little else on networks that it was not trained on"
    );
    Ok(Status::Fine)
}

fn words(value: &Value) -> String {
    let words = value.as_array().map(Vec::as_slice).unwrap_or_default();
    words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

/// A status for people.
fn lines(status: &Value) -> String {
    let number = |place: &str| status.pointer(place).and_then(Value::as_u64).unwrap_or(0);
    let share = |place: &str| {
        let share = status.pointer(place).and_then(Value::as_f64).unwrap_or(0.0);
        format!("{:.1} %", share * 100.0)
    };
    let text = |place: &str| status[place].as_str().unwrap_or_default().to_owned();
    let (mode, chosen) = (text("mode"), text("chosen"));
    let chosen = if chosen == mode { String::new() } else { format!(" (chosen: {chosen})") };
    let short = words(&status["shortages"]);
    let short = if short.is_empty() { String::from("none") } else { short };
    let (seen, kept) = (number("/bytes/seen"), number("/bytes/kept"));
    let kept_share = if seen == 0 { 0.0 } else { kept as f64 / seen as f64 * 100.0 };
    format!(
        "mode          {mode}{chosen}\npressure      {short}\npackets       {} seen = {} stored + \
         {} waiting + {} skipped by the mode + {} lost; {} dropped by the ring\nbytes         \
         {seen} seen, {kept} stored ({kept_share:.1} %)\ndisk free     {}\nblocks queued {}\nbusy  \
           {}\n",
        number("/packets/seen"),
        number("/packets/kept"),
        number("/packets/waiting"),
        number("/packets/passed_over"),
        number("/packets/lost"),
        number("/packets/ring_lost"),
        share("/disk_free"),
        share("/queue"),
        share("/busy"),
    )
}
