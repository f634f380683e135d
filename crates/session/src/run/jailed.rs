//! The jail of a run: entered here alone, so that no front end and no command can forget it.

use std::fs;
use std::path::{Path, PathBuf};

use alerts::NotifyKind;
use capture::Input;
use capture::live::Latency;
use jail::{JailReport, Needs};
use toml::Value;

use super::plan::Plan;
use super::quarantine;
use super::session::Doors;
use crate::reading::{Inputs, Interface};
use crate::refusal::Refusal;

/// Whether a run gives up what it no longer needs, before its first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jail {
    /// It does.
    Enter,
    /// A user wants none.
    Refused,
    /// The process is not ours, as in Python: what else it does is not known here.
    Foreign,
}

impl Jail {
    /// Unless a user wants none.
    #[must_use]
    pub const fn unless(is_refused: bool) -> Self {
        if is_refused { Self::Refused } else { Self::Enter }
    }

    /// Enters it for a command that reads these captures by itself and writes to files that are
    /// open. `tell` prints what a user has to know.
    pub fn enter(self, inputs: &Inputs, tell: fn(&str)) {
        self.enter_with(Needs { read_again: captures(inputs), ..Needs::default() }, tell);
    }

    /// The same, for one that reads the files of a folder, such as a log.
    pub fn enter_for_folder(self, folder: &Path, tell: fn(&str)) {
        self.enter_with(Needs { read_again: with_files(folder), ..Needs::default() }, tell);
    }

    /// The same, for one that also changes them. What root makes there belongs to the owner of the
    /// others.
    pub fn enter_to_change_folder(self, folder: &Path, tell: fn(&str)) {
        let (written, read_again) = (vec![folder.to_owned()], with_files(folder));
        let needs = Needs { written, read_again, gives_files: true, ..Needs::default() };
        self.enter_with(needs, tell);
    }

    /// The same, for one that makes connections, and for that reads these files each time.
    pub fn enter_with_network(self, read_again: Vec<PathBuf>, tell: fn(&str)) {
        self.enter_with(Needs { has_network: true, read_again, ..Needs::default() }, tell);
    }

    fn enter_with(self, needs: Needs, mut tell: fn(&str)) {
        RunJail { jail: self, needs, quarantine: None, tell_more: None }.enter(&mut tell);
    }
}

fn with_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    [folder.to_owned()].into_iter().chain(files).collect()
}

/// Captures, of which some are opened when those before them end, or a second time.
fn captures(inputs: &Inputs) -> Vec<PathBuf> {
    let path = |input: &Input| match input {
        Input::File(path) => Some(path.clone()),
        Input::Stdin => None,
    };
    inputs.resolved.inputs.iter().filter_map(path).collect()
}

/// Whether the system has a user that a run can become.
///
/// # Errors
/// A refusal about the key `user`.
pub fn check_user(name: &str) -> Result<(), Refusal> {
    jail::check_user(name).map_err(|error| Refusal::of("user", error))
}

impl Plan {
    /// Changes to the user that the settings name, if they do: sources are open, outputs are not,
    /// so that they are that user's.
    ///
    /// # Errors
    /// A refusal about the key `user`: a run that needs rights later cannot give them up.
    pub fn change_user(&self, inputs: &Inputs) -> Result<(), Refusal> {
        let attaches = self.applications.iter().any(|one| one.ready.attaches());
        self.run.user.as_deref().map_or(Ok(()), |name| change_user(name, inputs, attaches))
    }
}

/// The same for a user by name, and a run that attaches programs in the kernel or does not.
///
/// # Errors
/// As [`Plan::change_user`].
pub fn change_user(name: &str, inputs: &Inputs, attaches: bool) -> Result<(), Refusal> {
    let Some(interface) = &inputs.interface else {
        let why = "captures need no rights: run the command as that user (sudo -u NAME)";
        return Err(Refusal::of("user", why));
    };
    let needed = [
        (attaches, "taps, actions and programs in the kernel take the rights of root"),
        (interface.options.latency == Latency::Low, "a low latency needs CAP_SYS_NICE"),
    ];
    if let Some((_, why)) = needed.into_iter().find(|(is_needed, _)| *is_needed) {
        return Err(Refusal::of("user", format_args!("{name:?}: {why}; leave one of them out")));
    }
    jail::change_user(name).map_err(|error| Refusal::of("user", error))
}

/// Of the run that is about to begin.
pub(super) struct RunJail {
    jail: Jail,
    needs: Needs,
    /// Where packets go by which an application panicked, if settings name a folder.
    quarantine: Option<PathBuf>,
    /// Prints what a user may like to know.
    tell_more: Option<fn(&str)>,
}

impl RunJail {
    /// What a plan needs after its first packet, or row of a sensor.
    pub(super) fn of(plan: &Plan, inputs: Option<&Inputs>, doors: Doors) -> Self {
        let Doors { tell: tell_more, jail, .. } = doors;
        let interface = inputs.and_then(|inputs| inputs.interface.as_ref());
        // What a run on captures keeps is of no weight to those who read its rows.
        let tell_more = tell_more.filter(|_| interface.is_some());
        let low = |interface: &Interface| interface.options.latency == Latency::Low;
        let is_realtime = interface.is_some_and(low);
        let has_maps = plan.applications.iter().any(|one| one.ready.has_maps());
        let logs = plan.applications.iter().filter_map(|one| one.ready.log_folder());
        let logs: Vec<PathBuf> = logs.map(Path::to_owned).collect();
        let has_ring = !logs.is_empty();
        let (outputs, urls): (Vec<_>, Vec<_>) = outputs(plan).partition(|path| !is_url(path));
        let notify = &plan.alerts.notify;
        let is_file = |kind| matches!(kind, NotifyKind::Jsonl | NotifyKind::Eve);
        let alerted = notify.iter().filter(|to| is_file(to.kind)).map(|to| PathBuf::from(&to.to));
        let has_network =
            plan.nats.is_some() || !urls.is_empty() || notify.iter().any(|to| !is_file(to.kind));
        let history = plan.history.iter().map(|history| history.folder.clone());
        let written = outputs.into_iter().chain(logs).chain(alerted).chain(history).collect();
        let mut read_again = named(plan);
        read_again.extend(inputs.map(captures).unwrap_or_default());
        let of_its_own = plan.applications.iter().flat_map(|one| one.ready.reads());
        read_again.extend(of_its_own.cloned());
        let needs = Needs {
            written,
            read_again,
            has_network,
            is_realtime,
            has_ring,
            has_maps,
            ..Needs::default()
        };
        Self { jail, needs, quarantine: plan.run.quarantine.clone(), tell_more }
    }

    /// Enters it. `tell` prints what a user has to know.
    pub(super) fn enter(self, tell: &mut impl FnMut(&str)) {
        let Self { jail, mut needs, quarantine, tell_more } = self;
        match jail {
            Jail::Foreign => return,
            Jail::Refused => return tell(&format!("--no-jail: {}", jail::GIVEN_UP)),
            Jail::Enter => {}
        }
        // What a descriptor refers to is open, and its folder is that of all devices.
        needs.written.retain(|path| !files::is_descriptor(path));
        needs.written = needs.written.iter().map(|path| folder(path)).collect();
        needs.written.extend(open_folders());
        needs.written.extend(quarantine::ready(quarantine.as_deref()));
        let JailReport { kept, missing } = jail::enter(&needs);
        for part in missing {
            tell(&format!("jail: {part}"));
        }
        if let Some(tell) = tell_more.filter(|_| !kept.is_empty()) {
            tell(&format!("jail: kept because this run needs it: {}", kept.join(", ")));
        }
    }
}

/// Where rows go, but for standard output.
fn outputs(plan: &Plan) -> impl Iterator<Item = PathBuf> + '_ {
    let outputs = plan.applications.iter().filter_map(|one| one.output.as_ref());
    outputs.filter(|output| !output.is_stdout()).map(|output| output.path.clone())
}

/// Whether rows go to a collector.
fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains("://"))
}

/// The folder in which a file is finished, and others are begun; devices and pipes stand for
/// themselves.
fn folder(path: &Path) -> PathBuf {
    let is_other = fs::metadata(path).is_ok_and(|found| !found.is_file());
    match path.parent() {
        Some(parent) if !is_other && parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) if !is_other => parent.to_owned(),
        _ => path.to_owned(),
    }
}

/// The folders of the files that are open for writing: outputs that no plan knows of, such as those
/// of a view of a front end. Standard streams are left out, also duplicated: nothing is renamed
/// there.
fn open_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let open = numbers.filter(|number| *number > 2 && is_written(*number));
    let targets = open.filter_map(|number| fs::read_link(format!("/proc/self/fd/{number}")).ok());
    let standard = [1, 2].map(|number| fs::read_link(format!("/proc/self/fd/{number}")).ok());
    let others = targets.filter(|target| !standard.iter().flatten().any(|one| one == target));
    let files = others.filter(|target| target.is_absolute() && target.is_file());
    files.map(|file| folder(&file)).collect()
}

/// Whether a descriptor is open for writing, by its flags in proc(5), which are octal.
fn is_written(number: u32) -> bool {
    const WRITE_ONLY_OR_BOTH: u32 = 0o3;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & WRITE_ONLY_OR_BOTH != 0)
}

/// All files and folders that settings name, and the settings themselves: a reload reads them.
fn named(plan: &Plan) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    plan.tables.values().for_each(|value| collect(value, &mut paths));
    let places = plan.applications.iter().filter_map(|one| one.place.as_ref());
    paths.extend(places.map(|place| place.path.clone()));
    paths.retain(|path| path.exists());
    paths
}

fn collect(value: &Value, paths: &mut Vec<PathBuf>) {
    match value {
        Value::String(text) => paths.push(PathBuf::from(text)),
        Value::Array(values) => values.iter().for_each(|value| collect(value, paths)),
        Value::Table(table) => table.values().for_each(|value| collect(value, paths)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_an_output_is_granted_and_a_device_alone() {
        assert_eq!(folder(Path::new("rows.csv")), Path::new("."));
        assert_eq!(folder(Path::new("no-such-folder/rows.csv")), Path::new("no-such-folder"));
        assert_eq!(folder(Path::new("/dev/null")), Path::new("/dev/null"));
        let home = tempfile::tempdir().unwrap();
        assert_eq!(folder(home.path()), home.path());
    }

    #[test]
    fn a_file_that_is_open_for_writing_grants_its_folder_and_one_that_is_read_does_not() {
        let home = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| home.path().join(name));
        [&one, &two].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let _written = fs::File::create(one.join("rows.csv")).unwrap();
        fs::write(two.join("settings.toml"), "x").unwrap();
        let _read = fs::File::open(two.join("settings.toml")).unwrap();
        let open = open_folders();
        assert!(open.contains(&one) && !open.contains(&two), "{open:?}");
    }

    #[test]
    fn files_are_found_wherever_settings_name_them() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("list.txt");
        fs::write(&file, "").unwrap();
        let text = format!("[[indicators]]\nfile = {:?}\nname = \"x\"", file.display());
        let tables: toml::Table = text.parse().unwrap();
        let mut paths = Vec::new();
        tables.values().for_each(|value| collect(value, &mut paths));
        assert!(paths.contains(&file));
    }

    #[test]
    fn collectors_are_no_files() {
        assert!(is_url(Path::new("udp://192.0.2.1:4739")) && !is_url(Path::new("a/b.ipfix")));
    }
}
