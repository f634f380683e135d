//! Turns arguments into requests: no code outside this file uses arguments.

use std::path::PathBuf;

use capture::OpenError;
use capture::live::{Latency, LiveOptions};
use packet::Span;
use session::exports::Export;
use session::reading::{InputError, InputRequest, Inputs, Interface};
use session::top::Settings;

use crate::args::{self, FlowsArguments, InputArguments, LiveArguments, TopArguments};
use crate::failure::Failure;
use crate::hints;
use crate::interrupt;

/// Finds the inputs in the arguments; from here on an interrupt stops the run. `transport` states
/// whether transport headers are needed.
pub(crate) fn find(
    arguments: &InputArguments,
    live: Option<&LiveArguments>,
    transport: bool,
) -> Result<Inputs, Failure> {
    hints::refuse_captures(&arguments.expression)?;
    let request = request(arguments, live, !arguments.no_decap);
    let found = Inputs::find(&request, transport, interrupt::control());
    found.map_err(|error| explain(error, &request))
}

/// Refuses to replace a capture that is read by an output, even if files may be
/// replaced: that is always a mistake.
pub(crate) fn spare<'a>(
    inputs: &Inputs,
    outputs: impl IntoIterator<Item = Option<&'a PathBuf>>,
) -> Result<(), Failure> {
    session::run::spare(inputs, outputs).map_err(Failure::usage)
}

/// What was typed about an interface.
fn interface(arguments: &LiveArguments) -> Option<Interface> {
    let defaults = LiveOptions::default();
    let names = vec![arguments.interface.clone()?];
    let options = LiveOptions {
        latency: match arguments.latency {
            args::Latency::Throughput => Latency::Throughput,
            args::Latency::Low => Latency::Low,
        },
        ring_size_bytes: arguments
            .buffer_size
            .map_or(defaults.ring_size_bytes, |kib| kib as usize * 1024),
        is_promiscuous: !arguments.no_promiscuous,
        ..defaults
    };
    Some(Interface { names, options })
}

/// What was typed about inputs; tunnels are opened if `decapsulate`.
pub(crate) fn request(
    arguments: &InputArguments,
    live: Option<&LiveArguments>,
    decapsulate: bool,
) -> InputRequest {
    InputRequest {
        names: arguments.read.clone(),
        interface: live.and_then(interface),
        filter: Some(match &arguments.filter {
            Some(expression) => expression.clone(),
            None => arguments.expression.join(" "),
        }),
        count: arguments.count,
        snaplen: arguments.snaplen,
        drop_duplicates: arguments.drop_duplicates,
        decapsulate,
        thread_count: arguments.threads.map(usize::from),
        painter: (!arguments.quiet).then_some(crate::progress::painter),
        ..InputRequest::default()
    }
}

/// What was typed about `top`, over these windows.
pub(crate) fn top(arguments: &TopArguments, window: Option<Span>) -> Settings {
    let TopArguments { by, rows, sort, max_keys, ref hash_names, .. } = *arguments;
    Settings { by, rows, sort, window, max_keys, hash_names: hash_names.clone() }
}

/// What was typed about `flows`.
pub(crate) fn flows(
    arguments: &FlowsArguments,
    export: Option<&Export>,
) -> session::flows::Settings {
    session::flows::Settings {
        idle_timeout: arguments.idle_timeout,
        active_timeout: arguments.active_timeout,
        window: arguments.window,
        stats: arguments.stats,
        macs: arguments.macs,
        names: arguments.names,
        max_flows: arguments.max_flows,
        read_names: arguments.read_names,
        hash_names: arguments.hash_names.clone(),
        format: export.and_then(Export::style),
    }
}

/// An error about a file that may have been a word of a filter without its quotes.
pub(crate) fn explain(error: InputError, request: &InputRequest) -> Failure {
    let expression = request.filter.as_deref().unwrap_or_default();
    match &error {
        InputError::Open(OpenError::NotFound(path)) if !expression.is_empty() => {
            Failure::error(format_args!(
                "{error}; the rest of the line was taken as the filter `{expression}`: give each \
                 capture with -r, {}",
                path.display()
            ))
        }
        _ => error.into(),
    }
}
