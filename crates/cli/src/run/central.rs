//! `wirelens run` with `[sensors]`: the results of other runs, until Ctrl-C.

use std::sync::Arc;

use server::{Mode, Server};
use session::host::machine_name;
use session::run::{CentralDoors, CentralRun, Doors, Jail, Plan};

use super::args::RunArguments;
use super::{Begun, Beside, alerting, checked, page, stdout, stored, tell_line};
use crate::clock::{self, CLOCK};
use crate::failure::{Failure, Status};
use crate::interrupt::{self, Reopen};
use crate::service::{self, Notices};

pub(super) fn run(
    mut plan: Plan,
    beside: Beside,
    arguments: &RunArguments,
) -> Result<Status, Failure> {
    if arguments.view {
        return Err(Failure::usage("--view shows a run's own packets; with [sensors] use --page"));
    }
    if arguments.check {
        return Ok(checked(&plan, arguments));
    }
    let (control, reopen, store) = (interrupt::control(), Reopen::on_hangup(), plan.store.clone());
    let lent = CentralDoors {
        doors: Doors {
            clock: CLOCK,
            stdout,
            tell: Some(tell_line),
            jail: Jail::unless(arguments.no_jail),
            warn: tell_line,
        },
        control: Arc::clone(&control),
        machine: machine_name(),
        realtime_ns: || clock::realtime().as_ns(),
        tell: tell_line,
    };
    let servers = plan.nats.iter().flat_map(|nats| nats.servers.clone()).collect();
    let Some(mut central) = CentralRun::begin(&mut plan, &lent)? else { return Ok(Status::Fine) };
    let facts = page::facts_of(Mode::Live, servers, central.packets());
    let Begun { server, alerts, history, .. } = match beside.begin(facts, tell_line) {
        Ok(begun) => begun,
        Err(failure) => {
            central.abandon();
            return Err(failure);
        }
    };
    central.enter_jail();
    let packets = central.packets();
    let notices = Notices::with(Box::new(move || {
        let (received, dropped) = packets();
        format!("{received} packets received by sensors, {dropped} dropped")
    }));
    page::stay(&control, (&reopen, &notices), || {
        central.reopen();
        alerts.iter().for_each(|alerts| {
            alerts.reopen();
            alerts.lists().reload();
        });
        server.iter().for_each(|server| page::reload(server, tell_line));
        tell_line("[sensors]: new files; other settings take effect at the next start");
    });
    let ended = central.end(store.as_deref());
    let has_lost = alerting::end(alerts) | stored::end(history.as_deref(), None);
    server.into_iter().for_each(Server::end);
    service::stopping();
    let counts = ended?;
    if !arguments.quiet {
        eprintln!("{counts}");
    }
    Ok(if has_lost { Status::Error } else { Status::Fine })
}
