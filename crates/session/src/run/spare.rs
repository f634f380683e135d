//! Outputs that would take the place of what is read.

use std::path::PathBuf;

use capture::input::Input;

use crate::reading::{Inputs, is_same_file};

/// Refuses to put an output in the place of a capture that is read, also where files may be
/// replaced: that is never what is meant.
///
/// # Errors
/// A line that names both.
pub fn spare<'a>(
    inputs: &Inputs,
    outputs: impl IntoIterator<Item = Option<&'a PathBuf>>,
) -> Result<(), String> {
    for output in outputs.into_iter().flatten() {
        let is_output =
            |input: &&Input| matches!(input, Input::File(path) if is_same_file(output, path));
        if let Some(read) = inputs.resolved.inputs.iter().find(is_output) {
            return Err(format!(
                "{}: would overwrite {read}, which is read; give another name",
                output.display()
            ));
        }
    }
    Ok(())
}
