//! Frames of a capture that are anomalous, by their numbers, and how often a classifier agrees.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use super::LogError;

/// More than any capture that is read twice; each takes eight bytes.
const NUMBERS_MAX: usize = 100_000_000;

/// Numbers of frames, from 1 as Wireshark counts them.
#[derive(Debug, Clone)]
pub struct AnomalousFrames {
    path: PathBuf,
    /// In order, each once.
    numbers: Vec<u64>,
    /// How many of them have been passed, and frames in all.
    passed: usize,
    frames: u64,
}

/// What a classifier said of packets, and what they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Agreement {
    pub found: u64,
    pub missed: u64,
    pub false_alarms: u64,
    pub benign: u64,
}

impl AnomalousFrames {
    /// Reads a file with a number a line, as `tshark -T fields -e frame.number` prints them.
    ///
    /// # Errors
    /// [`LogError::Usage`], with the line.
    pub fn read(path: &Path) -> Result<Self, LogError> {
        let shown = path.display();
        let failed = |error| LogError::usage(format_args!("--anomalous {shown}: {error}"));
        let mut numbers = Vec::new();
        for (index, line) in BufReader::new(File::open(path).map_err(failed)?).lines().enumerate() {
            let line = line.map_err(failed)?;
            let text = line.trim();
            if text.is_empty() {
                continue;
            }
            let number = text.parse().ok().filter(|&number: &u64| number > 0).ok_or_else(|| {
                LogError::usage(format_args!(
                    "--anomalous {shown}, line {}: {text:?}; wanted: the number of a frame, from 1",
                    index + 1
                ))
            })?;
            if numbers.len() == NUMBERS_MAX {
                return Err(LogError::usage(format_args!(
                    "--anomalous {shown}: more than {NUMBERS_MAX} numbers"
                )));
            }
            numbers.push(number);
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Self { path: path.to_owned(), numbers, passed: 0, frames: 0 })
    }

    /// Whether the next frames are anomalous, one for each.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = bool> {
        (0..count).map(|_| {
            self.frames += 1;
            let is_anomalous = self.numbers.get(self.passed) == Some(&self.frames);
            self.passed += usize::from(is_anomalous);
            is_anomalous
        })
    }

    /// Why the numbers are not those of the frames that were read.
    pub(super) fn left(&self) -> Result<(), String> {
        let left = self.numbers.get(self.passed..).unwrap_or_default();
        let Some(last) = left.last() else { return Ok(()) };
        Err(format!(
            "--anomalous {}: frame {last}, of a capture with {} frames; wanted: numbers of its \
             frames",
            self.path.display(),
            self.frames
        ))
    }
}

impl Agreement {
    pub(super) fn count(&mut self, is_marked: bool, is_anomalous: bool) {
        *match (is_marked, is_anomalous) {
            (true, true) => &mut self.found,
            (false, true) => &mut self.missed,
            (true, false) => &mut self.false_alarms,
            (false, false) => &mut self.benign,
        } += 1;
    }

    /// Of marked packets the share that are anomalous.
    pub(super) fn precision(&self) -> Option<f64> {
        share(self.found, self.found + self.false_alarms)
    }

    /// Of anomalous packets the share that are marked.
    pub(super) fn recall(&self) -> Option<f64> {
        share(self.found, self.found + self.missed)
    }

    /// Of all packets the share that are what they were taken for.
    pub(super) fn accuracy(&self) -> Option<f64> {
        let right = self.found + self.benign;
        share(right, right + self.missed + self.false_alarms)
    }
}

#[allow(clippy::cast_precision_loss)]
fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AnomalousFrames, LogError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers.txt");
        std::fs::write(&path, text).unwrap();
        AnomalousFrames::read(&path)
    }

    #[test]
    fn numbers_in_any_order_name_the_frames_from_one() {
        let mut frames = read("4\n\n 2 \n2\r\n").unwrap();
        let taken: Vec<bool> = frames.take(3).collect();
        assert_eq!(taken, [false, true, false]);
        assert!(frames.left().unwrap_err().contains("frame 4, of a capture with 3 frames"));
        assert_eq!(frames.take(2).collect::<Vec<_>>(), [true, false]);
        assert_eq!(frames.left(), Ok(()));
    }

    #[test]
    fn what_is_no_number_of_a_frame_is_refused_with_its_line() {
        for text in ["1\n0\n", "1\n-3\n", "1\n2-5\n", "1\nframe.number\n", "1\n\u{fffd}\n"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("line 2: "), "{error}");
        }
    }

    #[test]
    fn agreement_is_counted_as_the_field_does() {
        let mut seen = Agreement::default();
        assert_eq!((seen.precision(), seen.recall(), seen.accuracy()), (None, None, None));
        for (is_marked, is_anomalous, times) in
            [(true, true, 3), (true, false, 1), (false, true, 2), (false, false, 4)]
        {
            (0..times).for_each(|_| seen.count(is_marked, is_anomalous));
        }
        let found = (seen.precision(), seen.recall(), seen.accuracy());
        assert_eq!(found, (Some(0.75), Some(0.6), Some(0.7)));
    }
}
