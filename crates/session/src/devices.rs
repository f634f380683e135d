//! Rows about the interfaces that can be listened on.

use capture::devices::Device;
use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};

/// The columns.
pub const SCHEMA: Schema = &[
    Field::new("index", Kind::U64, "Index of the interface in its network namespace."),
    Field::new("name", Kind::Text, "Its name, as -i takes it."),
    Field::new("state", Kind::Text, "down, up, or running (up with a carrier)."),
    Field::new("link", Kind::Text, "Link type of its frames; empty if -i cannot capture them.")
        .nullable(),
    Field::new("mtu_bytes", Kind::U64, "MTU: its largest packet, without link header."),
    Field::new("link_address", Kind::Text, "Its link address.").nullable(),
    Field::new("addresses", Kind::Text, "Its IP addresses, separated by spaces."),
];

/// A row for each.
///
/// # Errors
/// A row that its columns do not take.
pub fn columns(devices: &[Device]) -> Result<Columns, RowMismatch> {
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
        columns.push_row(&row)?;
    }
    Ok(columns)
}

/// Whether it can be used, in a word.
#[must_use]
pub fn state(device: &Device) -> &'static str {
    match (device.is_up, device.is_running) {
        (false, _) => "down",
        (true, false) => "up",
        (true, true) => "running",
    }
}

/// Its link address in hexadecimal; blank without.
#[must_use]
pub fn link_address(device: &Device) -> String {
    let bytes = device.link_address.iter().map(|byte| format!("{byte:02x}"));
    bytes.collect::<Vec<_>>().join(":")
}

/// Its IP addresses, separated by spaces.
#[must_use]
pub fn addresses(device: &Device) -> String {
    device.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
