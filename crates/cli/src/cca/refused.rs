//! What the session refuses of settings, in the words of the arguments.

use session::cca::settings::{FOLLOWED_MAX, Setting, SettingsError, TapScope};

use super::args::CcaArguments;
use crate::failure::Failure;

/// Arguments in addition to the settings that have an effect with some taps only.
pub(super) fn given(arguments: &CcaArguments) -> Vec<Setting> {
    [
        (arguments.act.act.is_some(), Setting::Act),
        (arguments.view.is_some(), Setting::View),
        (arguments.duration.is_some(), Setting::Duration),
        (arguments.input.no_decap, Setting::NoDecap),
    ]
    .into_iter()
    .filter_map(|(is_given, setting)| is_given.then_some(setting))
    .collect()
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::NotWhole { .. } => Self::usage(format_args!("--every {error} of it")),
            SettingsError::WithoutEffect { setting, wanted } => {
                Self::usage(without_effect(setting, wanted))
            }
            SettingsError::FollowedTwice => Self::usage(
                "--max-flows: with two live taps -n sets how many flows are tracked; leave it out, \
                 or give -n 0",
            ),
            SettingsError::Followed { asked } => Self::usage(format_args!(
                "--max-flows {asked}: live taps track at most {FOLLOWED_MAX} flows"
            )),
            SettingsError::Flows => Self::usage(format_args!("--max-flows: {error}")),
            SettingsError::SampledSlots { slots, max } => Self::usage(format_args!(
                "--every: {slots} slots in a period; with --sample wanted {max} at most: give a \
                 longer --slot, or a shorter --every"
            )),
        }
    }
}

const fn without_effect(setting: Setting, wanted: TapScope) -> &'static str {
    match (setting, wanted) {
        (Setting::Act, TapScope::Two) => {
            "--act: a single tap does not measure a queue; give the tap downstream of the queue \
             with --egress"
        }
        (Setting::Act, _) => "--act: captures cannot be acted on; give an interface with -i",
        (Setting::View, TapScope::Two) => {
            "--view: of two taps, and one was given; give --egress, or leave --view out"
        }
        (Setting::View, _) => "--view: of interfaces; give one with -i",
        (Setting::Duration, _) => "--duration: of interfaces; give one with -i",
        (Setting::EachPacket, TapScope::Two) => {
            "--each-packet: of two taps; with one, each packet is read anyway: leave it out"
        }
        (Setting::EachPacket, _) => "--each-packet: of interfaces; give one with -i",
        (Setting::Sample, _) => {
            "--sample: of two taps; acknowledgements need all of the data: give --egress, or leave \
             --sample out"
        }
        (Setting::PassedFirst, _) => {
            "--passed first: a rule of two taps; give --egress, or leave --passed out"
        }
        (Setting::EgressOffset, TapScope::Two) => {
            "--egress-offset: of two captures; give --egress, or leave it out"
        }
        (Setting::EgressOffset, _) => {
            "--egress-offset: of captures; interfaces of one machine have one clock: leave it out"
        }
        (Setting::NoDecap, _) => {
            "--no-decap: two live taps do not decapsulate tunnels; leave it out"
        }
        (Setting::Ingress, _) => "ingress: of two interfaces; give them with -i and --egress",
    }
}
