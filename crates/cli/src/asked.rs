//! From what was typed to what is asked for: beyond this file nobody knows of arguments.

use capture::OpenError;

use crate::args::{InputArguments, TopArguments};
use crate::failure::Failure;
use crate::interrupt;
use crate::reading::{InputError, InputRequest, Inputs, hash_seed};
use crate::top::TopRequest;

/// Finds the inputs that were typed; from here on an interrupt stops the run. `transport` tells
/// whether transport headers are needed.
pub(crate) fn find(arguments: &InputArguments, transport: bool) -> Result<Inputs, Failure> {
    let request = request(arguments);
    let found = Inputs::find(&request, transport, interrupt::control());
    found.map_err(|error| explain(error, &request))
}

/// What was typed about inputs.
fn request(arguments: &InputArguments) -> InputRequest {
    InputRequest {
        names: arguments.read.clone(),
        filter: Some(match &arguments.filter {
            Some(expression) => expression.clone(),
            None => arguments.expression.join(" "),
        }),
        count: arguments.count,
        snaplen: arguments.snaplen,
        decapsulate: !arguments.no_decap,
        thread_count: arguments.threads.map(usize::from),
        shows_progress: !arguments.quiet,
    }
}

/// What was typed about `top`.
pub(crate) fn top(arguments: &TopArguments) -> TopRequest {
    TopRequest {
        by: arguments.by,
        row_count_max: if arguments.rows == 0 { usize::MAX } else { arguments.rows },
        sort: arguments.sort,
        window: arguments.window,
        max_keys: arguments.max_keys,
        seed: hash_seed(arguments.input.seed),
    }
}

/// An error about a file that may have been a word of a filter without its quotes.
fn explain(error: InputError, request: &InputRequest) -> Failure {
    let expression = request.filter.as_deref().unwrap_or_default();
    match &error {
        InputError::Open(OpenError::NotFound(path)) if !expression.is_empty() => {
            Failure::error(format_args!(
                "{error}; the rest of the line was taken as the filter `{expression}`: several captures are each given with -r, {}",
                path.display()
            ))
        }
        _ => error.into(),
    }
}
