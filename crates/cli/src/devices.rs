//! `wirelens devices`: what can be listened on.

use std::io::Write as _;

use capture::devices::{self, Device};
use comfy_table::Table;
use session::devices::{SCHEMA, addresses, columns, link_address, state};

use crate::args::DevicesArguments;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::table;

/// Runs `wirelens devices`.
pub(crate) fn run(arguments: &DevicesArguments) -> Result<Status, Failure> {
    let devices = found()?;
    match output::show(&arguments.output)? {
        Show::Table => print(&devices)?,
        Show::Rows(format) => {
            let mut rows = output::create(&arguments.output, format, SCHEMA)?;
            rows.write(&columns(&devices).map_err(Failure::error)?)?;
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
