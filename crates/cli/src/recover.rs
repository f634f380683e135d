//! `wirelens recover`: what a killed run left behind becomes a file again.

use sink::{Existing, RecoveryReport};

use crate::args::RecoverArguments;
use crate::failure::{Failure, Status};

pub(crate) fn run(arguments: &RecoverArguments) -> Result<Status, Failure> {
    let partial = &arguments.partial;
    let target = match (&arguments.output, partial.extension()) {
        (Some(output), _) => output.clone(),
        (None, Some(suffix)) if suffix == "partial" => partial.with_extension(""),
        (None, _) => {
            return Err(Failure::usage(format_args!(
                "`{}` does not end in .partial; give the output with -o",
                partial.display()
            )));
        }
    };
    let existing = if arguments.force { Existing::Replace } else { Existing::Refuse };
    let RecoveryReport { format, row_count, cut_bytes } =
        sink::recover(partial, &target, existing)?;
    if !arguments.quiet {
        let (partial, target) = (partial.display(), target.display());
        eprintln!("{target}: rows recovered from {partial}: {row_count}, as {format}");
        if cut_bytes > 0 {
            eprintln!("incomplete bytes at its end: {cut_bytes}");
        }
    }
    Ok(Status::Fine)
}
