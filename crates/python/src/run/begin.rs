//! From Python's arguments to a run that has begun.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex};
use std::{io, process, thread};

use engine::run::Control;
use files::FileMode;
use pyo3::prelude::*;
use session::Host;
use session::application::Site;
use session::applications::APPLICATIONS;
use session::flows::FlowsAlias;
use session::reading::{InputRequest, Inputs, OpenSources};
use session::run::{
    Doors, InputSettings, Jail, NO_FILE, Plan, RunError, RunSettings, Session, read, spare,
};
use session::toml_text::Mistake;
use session::written::parse_bytes;

use super::kept::{Budget, Handing, Keeping, MemoryTable};
use super::{Ended, Message, Run, State, lock};
use crate::handed::BATCH_ROWS_MAX;
use crate::onnx::host;
use crate::options::{duration, refused, threads, within};
use crate::refusal::{Kind, Refusal};
use crate::world::{CLOCK, environment, stop_after};

/// Batches that wait for Python.
const CHANNEL_BATCHES: usize = 2;

/// Names of applications in Python that a process may have had.
const NAMES_MAX: usize = 1024;

/// What `run` takes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RunOptions {
    /// The file, where settings are one; then mistakes have lines.
    path: Option<PathBuf>,
    text: String,
    read: Vec<PathBuf>,
    interface: Vec<String>,
    duration: Option<String>,
    pace: Option<f64>,
    threads: Option<i64>,
    /// Bytes for all rows that are kept in memory.
    keep_max: String,
    batch_size: i64,
    /// Applications in Python: name, and settings in TOML.
    applications: Vec<(String, String)>,
}

impl RunOptions {
    /// Changes what the settings say of inputs.
    fn change(&self, input: &mut InputSettings) -> Result<(), Refusal> {
        input.take_instead(&self.read, &self.interface, self.pace);
        if let Some(text) = &self.duration {
            input.duration = Some(duration("duration", text)?);
        }
        Ok(())
    }

    /// In the words of a file, or of a dictionary, which has no lines.
    fn wrong(&self, mistakes: &[Mistake]) -> Refusal {
        let lines = mistakes.iter().map(|mistake| match self.path {
            Some(_) => mistake.to_string(),
            None => mistake.message.clone(),
        });
        Refusal::new(Kind::Settings, lines.collect::<Vec<_>>().join("\n"))
    }

    fn plan(&self, site: &Site<'_>) -> Result<Plan, Refusal> {
        // Mistakes in arguments are reported before those in the settings.
        self.change(&mut InputSettings::default())?;
        let instead = |input: &mut InputSettings| {
            let _ = self.change(input);
        };
        let path = self.path.as_deref().unwrap_or(Path::new(NO_FILE));
        let mut plan =
            read(path, &self.text, &instead, site).map_err(|found| self.wrong(&found))?;
        let refused = |(_, message)| Refusal::new(Kind::Option, message);
        plan.input.check().map_err(refused)?;
        let threads = match threads(self.threads)? {
            Some(count) => u16::try_from(count).ok(),
            None => plan.run.threads,
        };
        let run = RunSettings { threads, ..plan.run.clone() };
        run.check(&plan.input).map_err(refused)?;
        if run.user.is_some() {
            let why = "[run] user: this process is Python's; use `wirelens run`, or leave it out";
            return Err(Refusal::new(Kind::Option, why));
        }
        FileMode::ask(run.file_mode);
        plan.run = run;
        Ok(plan)
    }
}

/// A name that lives as long as the process: each is kept once.
fn name_for_ever(name: &str) -> Result<&'static str, Refusal> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = lock(&NAMES);
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    if names.len() >= NAMES_MAX {
        let text = format!("name: `{name}`: a process may have {NAMES_MAX} names of applications");
        return Err(Refusal::new(Kind::Option, text));
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    Ok(kept)
}

/// Tables in memory, each with the place of its application in the plan.
type Tables = Vec<(usize, Arc<MemoryTable>)>;

/// Gives each table without an output a place in memory, and adds the applications in Python.
fn take_rows(
    plan: &mut Plan,
    options: &RunOptions,
    site: &Site<'_>,
    to: &SyncSender<Message>,
    budget: &Arc<Budget>,
) -> Result<Tables, Refusal> {
    let batch_rows = within("batch_size", options.batch_size, 1, BATCH_ROWS_MAX)?;
    let is_live = plan.input.is_live();
    let mut tables = Tables::new();
    let planned = plan.applications.iter_mut().enumerate();
    for (place, planned) in planned.filter(|(_, planned)| planned.wants_door) {
        let kept = MemoryTable::new();
        planned.door = Some(Box::new(Keeping::new(Arc::clone(&kept), Arc::clone(budget))));
        tables.push((place, kept));
    }
    for (at, (name, text)) in options.applications.iter().enumerate() {
        let name = name_for_ever(name)?;
        let is_known = APPLICATIONS.iter().any(|entry| entry.name == name);
        if is_known || plan.applications.iter().any(|planned| planned.ready.name() == name) {
            let text = format!("name: `{name}`: an application has this name; give another");
            return Err(Refusal::new(Kind::Option, text));
        }
        let brought = FlowsAlias::new(name, text, &plan.wants, site).map_err(|found| {
            let lines: Vec<_> = found.into_iter().map(|mistake| mistake.message).collect();
            Refusal::new(Kind::Settings, lines.join("\n"))
        })?;
        let handing = Handing::new(at, to.clone(), batch_rows, is_live);
        let added = plan.add(Box::new(brought), Box::new(handing));
        added.map_err(|clash| Refusal::new(Kind::Settings, clash))?;
    }
    if plan.applications.is_empty() {
        let text = "no application; wanted: a table such as flows in the settings, or applications";
        return Err(Refusal::new(Kind::Settings, text));
    }
    Ok(tables)
}

/// Begins a run; the options are those of `wirelens.run`, complete.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, options: RunOptions) -> PyResult<Run> {
    let host = host(py)?;
    let control = Arc::new(Control::default());
    let keep_max = parse_bytes(&options.keep_max);
    let keep_max = keep_max.map_err(|wanted| refused("keep_max", &options.keep_max, &wanted))?;
    let budget = Arc::new(Budget::new(keep_max));
    let (to, receiver) = mpsc::sync_channel(CHANNEL_BATCHES);
    // Models are read here.
    let (plan, kept) = py.detach(|| plan(&options, &host, &to, &budget))?;
    let is_live = plan.input.is_live();
    let unused = unused(&plan);
    let of_run = Arc::clone(&control);
    let brought: Vec<_> = options.applications.into_iter().map(|(name, _)| name).collect();
    let work = move || {
        let ended = work(plan, &brought, of_run, &to);
        // Where nobody listens any more, nobody wants to know.
        let _ = to.send(Message::Ended(Box::new(ended)));
    };
    let thread = thread::Builder::new().name(String::from("wirelens-run")).spawn(work)?;
    let run = Run {
        state: Mutex::new(State::Running(receiver)),
        thread: Mutex::new(Some(thread)),
        control,
        budget,
        kept,
        is_live,
        unused,
        process: process::id(),
    };
    // Until inputs and outputs are open: what refuses them is reported here.
    if let Err(error) = run.wait(py) {
        run.close(py);
        return Err(error);
    }
    Ok(run)
}

fn plan(
    options: &RunOptions,
    host: &Host,
    to: &SyncSender<Message>,
    budget: &Arc<Budget>,
) -> Result<(Plan, Tables), Refusal> {
    let site =
        Site { host, environment, clock: CLOCK, is_live: false, input: None, takes_rows: true };
    let mut plan = options.plan(&site)?;
    plan.check_has_packets()?;
    let site = Site { is_live: plan.input.is_live(), ..site };
    let tables = take_rows(&mut plan, options, &site, to, budget)?;
    Ok((plan, tables))
}

/// Tables of the settings that only `wirelens run` acts on: to leave them out in silence would
/// lose alerts.
fn unused(plan: &Plan) -> Vec<&'static str> {
    let tables = [
        ("[page]", plan.page.is_some()),
        ("[history]", plan.history.is_some()),
        ("[nats]", plan.nats.is_some()),
        ("[[alert]]", !plan.alerts.alert.is_empty()),
        ("[[notify]]", !plan.alerts.notify.is_empty()),
    ];
    tables.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}

/// From opening inputs to the last row; `brought` are the applications in Python.
fn work(
    plan: Plan,
    brought: &[String],
    control: Arc<Control>,
    to: &SyncSender<Message>,
) -> Result<Ended, Refusal> {
    let thread_count = plan.run.threads.map(usize::from);
    let request = InputRequest { thread_count, ..plan.request() };
    let inputs = Inputs::find(&request, true, control)?;
    let outputs = plan.applications.iter().map(|one| one.output.as_ref().map(|to| &to.path));
    spare(&inputs, outputs).map_err(|text| Refusal::new(Kind::Option, text))?;
    let opened = plan.open(&inputs)?;
    let time = plan.input.duration;
    let mut alarm = None;
    let doors = Doors { clock: CLOCK, stdout, tell: None, jail: Jail::Foreign, warn: |_| {} };
    let session = Session::begin(plan, inputs, opened, doors, |opened, inputs| {
        alarm = time
            .filter(|_| !matches!(opened, OpenSources::Files(_)))
            .map(|time| stop_after(time, &inputs.control));
    })?;
    to.send(Message::Begun).map_err(|_| Refusal::unheard())?;
    let mut finished = session.run(|| None, |_| {})?;
    drop(alarm);
    if let Some(reason) = finished.received.refused_filter() {
        return Err(Refusal::new(Kind::Filter, reason));
    }
    finished.account()?;
    let is_brought = |name: &str| brought.iter().any(|own| own == name);
    let dropped = finished.dropped.clone();
    finished.dropped.retain(|(name, _)| !is_brought(name));
    let (mut losses, summary) = (finished.losses(), finished.lines());
    let late = dropped.iter().filter(|(name, _)| is_brought(name));
    losses.extend(late.map(|(name, count)| {
        format!("{name}: {count} rows were dropped, as on_flows was too slow")
    }));
    Ok(Ended {
        is_interrupted: finished.inputs.control.is_interrupted(),
        received: finished.received,
        refused: finished.inputs.resolved.refused,
        closings: finished.closings,
        losses,
        summary,
    })
}

/// A handle of our own on standard output.
pub(crate) fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// In the words of the command.
impl From<RunError> for Refusal {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Input(error) => error.into(),
            RunError::Begin(mistake) if mistake.path == Path::new(NO_FILE) => {
                Self::new(Kind::Settings, mistake.message)
            }
            RunError::Settings(_) | RunError::Begin(_) => Self::new(Kind::Settings, error),
            RunError::Refused(refusal) => Self::new(Kind::Option, refusal),
            RunError::Rows(_, error) if error.is_enough() => Self::unheard(),
            RunError::Rows(..) => Self::new(Kind::Output, error),
            RunError::Application(..) => Self::new(Kind::Application, error),
            RunError::Loss(_) => Self::new(Kind::Loss, error),
        }
    }
}
