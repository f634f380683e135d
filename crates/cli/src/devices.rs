//! `wirelens devices`: what can be listened on.

use std::io::Write as _;

use capture::devices::{self, Device};
use comfy_table::Table;
use engine::columns::{Columns, Field, Kind, Schema, Value};

use crate::args::DevicesArguments;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::table;

pub(crate) const SCHEMA: Schema = &[
    Field::new("index", Kind::U64, "Index of the interface in its network namespace."),
    Field::new("name", Kind::Text, "Its name, as -i takes it."),
    Field::new("state", Kind::Text, "down, up, or running (up with a carrier)."),
    Field::new("link", Kind::Text, "Link type of its frames; empty if -i cannot capture them.")
        .nullable(),
    Field::new("mtu_bytes", Kind::U64, "MTU: its largest packet, without link header."),
    Field::new("link_address", Kind::Text, "Its link address.").nullable(),
    Field::new("addresses", Kind::Text, "Its IP addresses, separated by spaces."),
];

/// Runs `wirelens devices`.
pub(crate) fn run(arguments: &DevicesArguments) -> Result<Status, Failure> {
    let devices = found()?;
    match output::show(&arguments.output)? {
        Show::Table => print(&devices)?,
        Show::Rows(format) => {
            let mut rows = output::create(&arguments.output, format, SCHEMA)?;
            rows.write(&columns(&devices)?)?;
            rows.finish()?;
        }
    }
    Ok(Status::Fine)
}

/// Runs `wirelens -D`.
pub(crate) fn list() -> Result<Status, Failure> {
    print(&found()?)?;
    Ok(Status::Fine)
}

fn found() -> Result<Vec<Device>, Failure> {
    devices::list()
        .map_err(|error| Failure::error(format_args!("interfaces cannot be listed: {error}")))
}

fn print(devices: &[Device]) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["index", "name", "state", "link", "mtu", "link address", "addresses"]);
    for device in devices {
        table.add_row([
            device.index.to_string(),
            device.name.clone(),
            state(device).to_owned(),
            device.link.map_or(String::from("(unknown)"), |link| link.to_string()),
            device.mtu_bytes.to_string(),
            link_address(device),
            addresses(device),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    writeln!(
        std::io::stdout(),
        "{}",
        table::fitted(&mut table, &["index", "mtu", "link", "link address"])
    )?;
    Ok(())
}

fn columns(devices: &[Device]) -> Result<Columns, Failure> {
    let mut columns = Columns::new(SCHEMA);
    for device in devices {
        let (link_address, addresses) = (link_address(device), addresses(device));
        let link = device.link.map(|link| link.to_string());
        let some = |text: &str| !text.is_empty();
        let row = [
            Value::U64(u64::from(device.index.unsigned_abs())),
            Value::Str(&device.name),
            Value::Str(state(device)),
            link.as_deref().map(Value::Str).into(),
            Value::U64(device.mtu_bytes.into()),
            Some(link_address.as_str()).filter(|text| some(text)).map(Value::Str).into(),
            Value::Str(&addresses),
        ];
        columns.push_row(&row).map_err(Failure::error)?;
    }
    Ok(columns)
}

fn state(device: &Device) -> &'static str {
    match (device.is_up, device.is_running) {
        (false, _) => "down",
        (true, false) => "up",
        (true, true) => "running",
    }
}

fn link_address(device: &Device) -> String {
    let bytes = device.link_address.iter().map(|byte| format!("{byte:02x}"));
    bytes.collect::<Vec<_>>().join(":")
}

fn addresses(device: &Device) -> String {
    device.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
