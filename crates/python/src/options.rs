//! From Python's arguments to requests; what an argument cannot mean is refused by its name.

use std::path::PathBuf;

use capture::live::LiveOptions;
use engine::PartitionShare;
use packet::Span;
use pyo3::FromPyObject;
use session::duration::parse_duration;
use session::reading::{InputRequest, Interface};

use crate::refusal::{Kind, Refusal};

/// Threads that may be asked for, as on the command line.
const THREADS: std::ops::RangeInclusive<i64> = 1..=256;

/// What every question takes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct InputOptions {
    names: Vec<PathBuf>,
    filter: Option<String>,
    count: Option<i64>,
    snaplen: Option<i64>,
    decapsulate: bool,
    threads: Option<i64>,
    interface: Option<String>,
    duration: Option<String>,
    drop_duplicates: Option<String>,
    share: Option<(i64, i64)>,
}

impl InputOptions {
    /// Whether an interface is listened on.
    pub(crate) fn is_live(&self) -> bool {
        self.interface.is_some()
    }

    /// How long an interface is listened on, where there is an end.
    pub(crate) fn time(&self) -> Result<Option<Span>, Refusal> {
        let time = self.duration.as_deref().map(|text| duration("duration", text)).transpose()?;
        if time.is_some() && self.interface.is_none() {
            let text = "duration: it has no effect on captures; leave it out, or give interface";
            return Err(Refusal::new(Kind::Option, text));
        }
        Ok(time)
    }

    /// The share of the flows that is kept.
    fn share(&self) -> Result<PartitionShare, Refusal> {
        let Some((index, count)) = self.share else { return Ok(PartitionShare::WHOLE) };
        if self.is_live() {
            let text = "share: an interface is read once; leave it out, or give captures";
            return Err(Refusal::new(Kind::Option, text));
        }
        let both = usize::try_from(index).ok().zip(usize::try_from(count).ok());
        let share = both.and_then(|(index, count)| PartitionShare::new(index, count));
        share.ok_or_else(|| {
            let seen = format!("({index}, {count})");
            refused("share", seen, "wanted (index, count): one of at most 64 shares, from 0")
        })
    }

    pub(crate) fn request(self) -> Result<InputRequest, Refusal> {
        let count = match self.count {
            Some(count) => match u64::try_from(count) {
                Ok(count) if count > 0 => Some(count),
                _ => return Err(refused("count", count, "wanted a number of frames, at least 1")),
            },
            None => None,
        };
        let snaplen = self.snaplen.map(|snaplen| {
            u32::try_from(snaplen).map_err(|_| {
                refused("snaplen", snaplen, "wanted a number of bytes, 0 for all, below 4294967296")
            })
        });
        let thread_count = threads(self.threads)?;
        let share = self.share()?;
        let drop_duplicates = self.drop_duplicates.as_deref();
        let drop_duplicates =
            drop_duplicates.map(|text| duration("drop_duplicates", text)).transpose()?;
        Ok(InputRequest {
            names: self.names,
            interface: self
                .interface
                .map(|name| Interface { names: vec![name], options: LiveOptions::default() }),
            filter: self.filter,
            count,
            snaplen: snaplen.transpose()?,
            drop_duplicates,
            decapsulate: self.decapsulate,
            thread_count,
            share,
            painter: None,
        })
    }
}

/// A number of threads, if one was given.
pub(crate) fn threads(threads: Option<i64>) -> Result<Option<usize>, Refusal> {
    let count = threads.map(|threads| {
        let fits = THREADS.contains(&threads).then_some(threads);
        fits.and_then(|threads| usize::try_from(threads).ok())
            .ok_or_else(|| refused("threads", threads, "wanted a number from 1 to 256"))
    });
    count.transpose()
}

/// A refusal that names the argument.
pub(crate) fn refused(name: &str, seen: impl std::fmt::Display, wanted: &str) -> Refusal {
    Refusal::new(Kind::Option, format_args!("{name}: `{seen}`: {wanted}"))
}

/// A refusal of a name that is none of the known ones.
pub(crate) fn refused_name(name: &str, wanted: &str) -> Refusal {
    Refusal::new(Kind::Option, format_args!("{name}: {wanted}"))
}

/// A length of time, as the command takes it.
pub(crate) fn duration(name: &str, text: &str) -> Result<Span, Refusal> {
    parse_duration(text).map_err(|wanted| refused(name, text, &wanted))
}

/// The seed of a hash, if one was given.
pub(crate) fn seed(seed: Option<i128>) -> Result<Option<u64>, Refusal> {
    let seed = seed.map(|seed| {
        u64::try_from(seed).map_err(|_| refused("seed", seed, "wanted a number of 64 bits"))
    });
    seed.transpose()
}

/// A number that may be from `least` to `most`.
pub(crate) fn within(name: &str, number: i64, least: usize, most: usize) -> Result<usize, Refusal> {
    match usize::try_from(number) {
        Ok(fits) if (least..=most).contains(&fits) => Ok(fits),
        _ => Err(refused(name, number, &format!("wanted a number from {least} to {most}"))),
    }
}
