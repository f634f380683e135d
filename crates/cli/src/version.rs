//! `wirelens --version`.

use std::io::Write as _;

use crate::failure::{Failure, Status};

/// Prints the version, and on request how it was built and what it found.
pub(crate) fn print(verbose: bool) -> Result<Status, Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "wirelens {}", env!("CARGO_PKG_VERSION"))?;
    if verbose {
        let libpcap = capture::filter::library_version()
            .unwrap_or_else(|reason| format!("not found ({reason}); filters cannot be used"));
        writeln!(out, "target: {}-{}", std::env::consts::ARCH, std::env::consts::OS)?;
        writeln!(out, "input: pcap, pcapng; plain, gzip, zstd; file, folder, standard input")?;
        writeln!(out, "output: table, csv, jsonl, parquet, arrow")?;
        writeln!(out, "filter: {libpcap}")?;
    }
    Ok(Status::Fine)
}
