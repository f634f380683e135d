//! `wirelens packetlog verify`: whether a log is what was recorded.

use packetlog::log;
use session::packetlog::{anchors, is_confirmed, verified_lines};
use session::run::Jail;

use super::args::VerifyArguments;
use crate::failure::{Failure, Status};
use crate::run::tell_line;

/// Runs `wirelens packetlog verify`.
pub(super) fn run(arguments: &VerifyArguments) -> Result<Status, Failure> {
    let folder = &arguments.log.at.folder;
    let anchors = anchors(&arguments.heads, &arguments.anchor)?;
    Jail::unless(arguments.log.no_jail).enter_for_folder(folder, tell_line);
    if arguments.head {
        let head = log::head(folder).map_err(Failure::error)?;
        let head = head.ok_or_else(|| {
            Failure::error(format_args!("{}: no ledger; record into it first", folder.display()))
        })?;
        println!("{head}");
        return Ok(Status::Fine);
    }
    let report = log::verify(folder, &anchors).map_err(Failure::error)?;
    print!("{}", verified_lines(&report, &anchors));
    Ok(if is_confirmed(&report, &anchors) { Status::Fine } else { Status::Damaged })
}
