//! What a run counts of itself: packets before applications see them, and what the process uses.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use capture::{Progress, Report};
use store::{Count, Store};

use super::shown::RUN;

/// Whose counts they are that the process has of itself.
const PROCESS: &str = "process";

/// Threads that have a name of their own in counts; others are added up as `other`.
const NAMES_MAX: usize = 64;

/// Packets before applications see them, while they are read and in the end.
pub(super) struct Reading {
    progress: Arc<Progress>,
    last: OnceLock<Report>,
}

impl Reading {
    /// Has them counted.
    pub(super) fn count(store: &Store, progress: Arc<Progress>) -> Arc<Self> {
        let reading = Arc::new(Self { progress, last: OnceLock::new() });
        let counted = Arc::clone(&reading);
        store.count_by(RUN, Box::new(move || counted.counts()));
        reading
    }

    /// Nothing is read any more: the account is this one.
    pub(super) fn end(&self, report: &Report) {
        // It ends once.
        let _ = self.last.set(report.clone());
    }

    fn counts(&self) -> Vec<Count> {
        let so_far = self.progress.so_far();
        let Report { received, filtered, dropped, unread, interface_dropped, .. } =
            self.last.get().unwrap_or(&so_far);
        let lost = |stage: &str, cause: &str, count| {
            let about = "Packets lost or left out before applications.";
            let count = Count::total("packets_dropped", about, count).with("stage", stage);
            count.with("cause", cause)
        };
        vec![
            Count::total("packets_received", "Packets received by the capture.", *received),
            Count::total("packets_filtered", "Packets removed by the filter.", *filtered),
            Count::total("packets_unread", "Packets in the ring when reading ended.", *unread),
            lost("capture", "ring_full", dropped.ring_full),
            lost("capture", "duplicate", dropped.duplicates),
            lost("interface", "interface", *interface_dropped),
        ]
    }
}

/// Has counted what the process uses: memory, processor time, files; and each of its threads.
pub(crate) fn count_process(store: &Store) {
    store.count_by(PROCESS, Box::new(process));
    let threads = Mutex::new(Threads::default());
    let counting = move || {
        let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.look();
        threads.counts()
    };
    store.count_by(RUN, Box::new(counting));
}

/// As proc_pid_stat(5) counts time; the same on every Linux of today.
const TICKS_PER_SECOND: f64 = 100.0;

/// By the names that Prometheus' own libraries use; nothing where there is no `/proc`.
#[allow(clippy::cast_precision_loss)]
fn process() -> Vec<Count> {
    let mut counts = Vec::new();
    let mut gauge = |name, about, value: Option<f64>| {
        counts.extend(value.map(|value| Count::gauge(name, about, value)));
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024.0)
    };
    gauge("resident_memory_bytes", "Resident memory.", bytes("VmRSS:"));
    gauge("resident_memory_max_bytes", "Peak resident memory.", bytes("VmHWM:"));
    gauge("virtual_memory_bytes", "Virtual memory.", bytes("VmSize:"));
    let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    gauge("open_fds", "Open file descriptors.", open);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let limit = limit.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    gauge("max_fds", "Maximum number of open file descriptors.", limit);
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(seconds) = cpu_seconds(&stat) {
        let about = "CPU time, user and system.";
        let count = Count::total("cpu_seconds", about, 0);
        counts.push(Count { value: seconds, ..count });
    }
    counts
}

/// Of the process' line: fields 14 and 15, counted behind the name, which may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

/// Nanoseconds that threads were on a processor, and that they were ready and waited for one.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Spent {
    on_cpu: u64,
    waiting: u64,
}

/// Threads by name, those included that have ended: a counter never goes back.
#[derive(Default)]
struct Threads {
    living: BTreeMap<u64, (String, Spent)>,
    ended: BTreeMap<String, Spent>,
}

impl Threads {
    /// What the kernel says of each thread. No thread notices.
    fn look(&mut self) {
        let own = u64::from(std::process::id());
        let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let seen = entries.filter_map(|entry| {
            let id: u64 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("schedstat")).ok()?;
            let mut numbers = stat.split_whitespace().map_while(|text| text.parse().ok());
            let spent = Spent { on_cpu: numbers.next()?, waiting: numbers.next()? };
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            let name = if id == own { "main" } else { name.trim_end() };
            Some((id, (known(name).to_owned(), spent)))
        });
        self.take(seen.collect());
    }

    fn take(&mut self, seen: BTreeMap<u64, (String, Spent)>) {
        for (id, (name, spent)) in std::mem::replace(&mut self.living, seen) {
            // A number may be another thread's by now.
            let goes_on = self.living.get(&id).is_some_and(|(_, now)| now.on_cpu >= spent.on_cpu);
            if !goes_on {
                let ended = self.ended.entry(name).or_default();
                ended.on_cpu += spent.on_cpu;
                ended.waiting += spent.waiting;
            }
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn counts(&self) -> Vec<Count> {
        let mut sums = self.ended.clone();
        for (name, spent) in self.living.values() {
            let sum = sums.entry(name.clone()).or_default();
            sum.on_cpu += spent.on_cpu;
            sum.waiting += spent.waiting;
        }
        let mut counts = Vec::new();
        for (at, (name, spent)) in sums.iter().enumerate() {
            let name = if at < NAMES_MAX { name } else { "other" };
            let seconds = |what, about, ns: u64| {
                let count = Count::total(what, about, 0).with("thread", name);
                Count { value: ns as f64 / 1e9, ..count }
            };
            let about = "Time that threads were busy, by name.";
            counts.push(seconds("thread_cpu_seconds", about, spent.on_cpu));
            let about = "Time that threads were ready without a free CPU.";
            counts.push(seconds("thread_wait_seconds", about, spent.waiting));
        }
        counts
    }
}

/// A thread's name; unnamed threads have the program's, or a library's.
fn known(name: &str) -> &str {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let is_ours = !name.is_empty() && name.chars().all(is_plain) && name != "wirelens";
    if is_ours { name } else { "other" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let line = "7 (a) b) R 1 7 7 0 -1 4194304 102 0 0 0 150 50 0 0 20 0 1 0 5235953 0 0";
        assert_eq!(cpu_seconds(line), Some(2.0));
        assert_eq!(cpu_seconds("7 (a"), None);
    }

    #[test]
    fn time_of_threads_never_goes_back() {
        let of = |name: &str, on_cpu| (name.to_owned(), Spent { on_cpu, waiting: 1 });
        let busy = |threads: &Threads, name: &str| {
            let counts = threads.counts();
            let label = ("thread", name.to_owned());
            let found = counts.iter().find(|count| {
                count.name == "thread_cpu_seconds" && count.labels == [label.clone()]
            });
            found.map(|count| (count.value * 1e9).round() as u64)
        };
        let mut threads = Threads::default();
        threads.take([(1, of("main", 5)), (2, of("shard-1", 10)), (3, of("shard-1", 20))].into());
        assert_eq!(busy(&threads, "shard-1"), Some(30));
        threads.take([(1, of("main", 9)), (3, of("shard-1", 25))].into());
        assert_eq!((busy(&threads, "main"), busy(&threads, "shard-1")), (Some(9), Some(35)));
        threads.take([(1, of("main", 9)), (3, of("query", 4))].into());
        assert_eq!((busy(&threads, "shard-1"), busy(&threads, "query")), (Some(35), Some(4)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_counted() {
        let counts = process();
        let of = |name: &str| counts.iter().find(|count| count.name == name).unwrap().value;
        assert!(of("resident_memory_bytes") > 1e5 && of("open_fds") >= 3.0);
        assert!(of("cpu_seconds") >= 0.0 && of("max_fds") > 3.0);
        let mut threads = Threads::default();
        threads.look();
        assert!(threads.counts().iter().any(|count| count.labels == [("thread", "main".into())]));
    }
}
