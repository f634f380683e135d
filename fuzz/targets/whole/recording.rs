//! Packets that are recorded: what the log says of itself is what is found in it, its ledger
//! agrees, and what is copied out of it is a capture.

use std::ops::ControlFlow;

use fuzz::decoding::frame_count;
use packetlog::log::{Log, Query, verify};
use session::packetlog::search::LogSearch;
use store::packets::{PacketLog as _, PacketQuery};

use super::applications::Case;

pub(crate) fn packetlog(bytes: &[u8]) {
    let case = Case::new(bytes);
    let folder = case.folder.join("log");
    let mode = ["default", "log-all", "log-partial", "log-sampled", "log-minimum"];
    let mode = mode[usize::from(case.choice & 7) % mode.len()];
    let encoding = if case.bit(3) { "compact" } else { "pcapng" };
    let notes = if case.bit(4) { "comment" } else { "option" };
    let compress = if case.bit(5) { ", compress = 1" } else { "" };
    let mut settings = case.head();
    settings.push_str(&format!(
        "[packetlog]\noutput = {:?}\nmode = {mode:?}\nlog = {{ direct = \"never\", encoding = \
         {encoding:?}, notes = {notes:?}, block-bytes = \"64K\"{compress} }}\n",
        folder.display().to_string()
    ));
    if case.bit(6) {
        settings.push_str("hindsight = \"2s\"\nhindsight-bytes = \"1M\"\n");
        if case.bit(7) {
            settings.push_str("hindsight-reach = \"host\"\n");
        }
    }
    // One recorder, and another that goes on.
    for _ in 0..=u8::from(case.bit(8)) {
        if case.run(&settings).is_none() {
            return;
        }
    }
    let log = Log::open(&folder).expect("a log that was just written");
    assert_eq!(log.faults().chain(log.side_faults()).count(), 0);
    let mut found = 0;
    let report = log.query(&Query::default(), &mut |_| {
        found += 1;
        ControlFlow::Continue(())
    });
    report.expect("files that can be read");
    let total = log.stats().total();
    assert_eq!((total.stored_packets, total.lost_packets), (found, 0));
    let verified = verify(&folder, &[]).expect("a folder that can be read");
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    let search = LogSearch::new(folder);
    let copied = search.pcapng(&PacketQuery::default()).expect("a log that can be read");
    assert_eq!(frame_count(&copied), found);
    let (rows, is_cut) = search.rows(&PacketQuery::default(), 1_000).expect("the same");
    assert_eq!((rows.len() as u64, is_cut), (found.min(1_000), found > 1_000));
    search.status().expect("what it says of itself");
}
