//! Which frames a run reads, as a file of settings says it.

use std::path::PathBuf;

use capture::live::{self, Latency, LiveOptions};
use packet::Span;
use serde::Deserialize;

use crate::choice::choice;
use crate::reading::{InputRequest, Interface};
use crate::written;

choice! {
    /// What matters more on an interface.
    Latencies: "latency" {
        Throughput = "throughput", "Frames are delivered in blocks, after 10 to 25 ms";
        Low = "low", "Each frame is delivered immediately";
    }
}

/// Settings of `[input]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct InputSettings {
    /// Captures: files, folders of captures, or `-`.
    #[serde(deserialize_with = "written::paths")]
    pub read: Vec<PathBuf>,
    /// The interfaces to listen on instead.
    #[serde(deserialize_with = "written::texts")]
    pub interface: Vec<String>,
    /// Only frames that pass this expression.
    pub filter: Option<String>,
    /// Stop after this many frames.
    pub count: Option<u64>,
    /// Use only so many bytes of each frame.
    pub snaplen: Option<u32>,
    /// Leave out packets that are like one of so long before them.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub drop_duplicates: Option<Span>,
    /// Memory in which the kernel puts frames, in bytes.
    #[serde(deserialize_with = "written::bytes_if_any")]
    pub buffer_size: Option<u64>,
    /// Whether frames are asked for that are for other stations.
    pub promiscuous: bool,
    /// What matters more.
    #[serde(deserialize_with = "written::choice")]
    pub latency: Latencies,
    /// Stop listening after this time.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub duration: Option<Span>,
    /// Replay captures at so many times their own speed.
    pub pace: Option<f64>,
    /// Whether a front end gave captures in place of the interface of the file.
    #[serde(skip)]
    is_in_place_of_interface: bool,
}

impl Default for InputSettings {
    fn default() -> Self {
        Self {
            read: Vec::new(),
            interface: Vec::new(),
            filter: None,
            count: None,
            snaplen: None,
            drop_duplicates: None,
            buffer_size: None,
            promiscuous: true,
            latency: Latencies::Throughput,
            duration: None,
            pace: None,
            is_in_place_of_interface: false,
        }
    }
}

impl InputSettings {
    /// Whether frames come from interfaces.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        !self.interface.is_empty()
    }

    /// Whether a file with this input may name a user: it has an interface, or had one.
    pub(crate) const fn may_have_user(&self) -> bool {
        self.is_live() || self.is_in_place_of_interface
    }

    /// Whether there is anything to read.
    #[must_use]
    pub const fn is_given(&self) -> bool {
        self.is_live() || !self.read.is_empty()
    }

    /// Replaces sources of the file by those given to a front end: captures, or interfaces.
    /// What the file says of the kind of source that is replaced goes with it.
    pub fn take_instead(&mut self, read: &[PathBuf], interface: &[String], pace: Option<f64>) {
        if !read.is_empty() {
            let is_in_place_of_interface = self.is_live() || self.is_in_place_of_interface;
            let Self { filter, count, snaplen, drop_duplicates, pace, .. } = std::mem::take(self);
            let read = read.to_vec();
            *self = Self { read, filter, count, snaplen, drop_duplicates, pace, ..Self::default() };
            self.is_in_place_of_interface = is_in_place_of_interface;
        }
        if !interface.is_empty() {
            self.interface = interface.to_vec();
            self.read.clear();
            self.pace = None;
        }
        self.pace = pace.or(self.pace);
    }

    /// Checks what serde cannot: the key that is wrong, and why.
    ///
    /// # Errors
    /// The key and the message.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let of_interface = [
            ("buffer-size", self.buffer_size.is_some()),
            ("duration", self.duration.is_some()),
            ("promiscuous", !self.promiscuous),
            ("latency", self.latency != Latencies::Throughput),
        ];
        if !self.is_live()
            && let Some((key, _)) = of_interface.into_iter().find(|(_, is_given)| *is_given)
        {
            let why = "has no effect on captures; leave it out, or give interface";
            return Err((key, format!("{key} {why}")));
        }
        if self.is_live() && self.pace.is_some() {
            return Err(("pace", String::from("pace has no effect on an interface; leave it out")));
        }
        if self.is_live() && !self.read.is_empty() {
            let why = "captures and an interface cannot be read in one run";
            return Err(("read", format!("read and interface: {why}")));
        }
        if let Some(name) = self.interface_twice() {
            let message = format!(
                "interface: {name} is already captured, so its packets would count twice; name \
                 each interface once, or only any"
            );
            return Err(("interface", message));
        }
        match self.pace {
            Some(pace) if !(1e-3..=1e6).contains(&pace) => {
                Err(("pace", format!("pace = {pace}; wanted 0.001 to 1000000 times as fast")))
            }
            _ => Ok(()),
        }
    }

    /// A name that stands for what another stands for as well.
    fn interface_twice(&self) -> Option<&str> {
        let names = &self.interface;
        let is_twice = |(at, name): &(usize, &String)| {
            let before = names.get(..*at).unwrap_or_default();
            before.contains(name) || (names.len() > 1 && *name == live::ANY)
        };
        names.iter().enumerate().find(is_twice).map(|(_, name)| name.as_str())
    }

    /// As what is asked of [`crate::reading`].
    #[must_use]
    pub fn request(&self) -> InputRequest {
        let usual = LiveOptions::default();
        let interface = self.is_live().then(|| Interface {
            names: self.interface.clone(),
            options: LiveOptions {
                latency: match self.latency {
                    Latencies::Throughput => Latency::Throughput,
                    Latencies::Low => Latency::Low,
                },
                ring_size_bytes: self.buffer_size.map_or(usual.ring_size_bytes, |bytes| {
                    usize::try_from(bytes).unwrap_or(usize::MAX)
                }),
                is_promiscuous: self.promiscuous,
                ..usual
            },
        });
        InputRequest {
            names: self.read.clone(),
            interface,
            filter: self.filter.clone(),
            count: self.count,
            snaplen: self.snaplen,
            drop_duplicates: self.drop_duplicates,
            ..InputRequest::default()
        }
    }
}
