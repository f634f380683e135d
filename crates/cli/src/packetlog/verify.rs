//! `wirelens packetlog verify`: whether a log is what was recorded.

use packetlog::log;
use session::packetlog::{anchors, is_confirmed, verified_lines};

use super::args::VerifyArguments;
use crate::failure::{Failure, Status};

/// Runs `wirelens packetlog verify`.
pub(super) fn run(arguments: &VerifyArguments) -> Result<Status, Failure> {
    let folder = &arguments.folder.folder;
    if arguments.head {
        let head = log::head(folder).map_err(Failure::error)?;
        let head = head.ok_or_else(|| {
            Failure::error(format_args!("{}: no ledger; record into it first", folder.display()))
        })?;
        println!("{head}");
        return Ok(Status::Fine);
    }
    let anchors = anchors(&arguments.heads, &arguments.anchor)?;
    let report = log::verify(folder, &anchors).map_err(Failure::error)?;
    print!("{}", verified_lines(&report, &anchors));
    Ok(if is_confirmed(&report, &anchors) { Status::Fine } else { Status::Damaged })
}
