//! The settings file that `wirelens run --init` writes.

use super::alerting;
use crate::applications::APPLICATIONS;
use crate::{networks, page, published, sensors, stored};

const HEAD: &str = "\
# Settings of `wirelens run -c wirelens.toml`. Commented settings show the defaults or an example.
# `wirelens run -c wirelens.toml --check` reports every mistake with its line.

[input]
# Captures: files, folders of captures, or - for standard input.
read = [\"capture.pcap\"]
# Or an interface, several as a list ([\"eth0\", \"eth1\"]), or any for all of them.
# interface = \"eth0\"
# filter = \"tcp port 443\"
# count = 1000000
# snaplen = 0
# Drop duplicates, such as those of a SPAN port: packets equal to one this long before.
# drop-duplicates = \"5ms\"
# Interfaces only: size of the ring buffer of each, and when to stop.
# buffer-size = \"64M\"
# duration = \"1h\"
# promiscuous = true
# latency = \"throughput\"
# Captures only: replay at this multiple of the recorded speed.
# pace = 1.0

[run]
# Seed of the flow hash [default: random].
# seed = 1
# Threads to read captures; rows do not depend on it [default: one per core].
# threads = 2
# Permissions of the files that are created: 0640 if the group is to read them.
# file-mode = \"0600\"
# The user that the run has once its interfaces are open; outputs are that user's.
# user = \"wirelens\"
# Faults (panics) after which an application ends; each costs it a piece of packets.
# faults-max = 10
# The folder for packets of such pieces; \"\" for none. docs/guide/faults.md
# quarantine = \"wirelens-quarantine\"
# Drills, faults on purpose: drop, full-table, slow-disk, fault. docs/guide/drills.md
# simulate = [\"drop=1000\", \"fault=flows@1000\"]
";

const RULES: &str = "
# Rules: what a verdict changes for the next packets of its flow. The first match counts.
# [[rule]]
# service = [\"ssh\", \"telnet\"]
# keep = \"full\"
#
# [[rule]]
# anomaly = \"any\"
# keep = \"full\"
#
# Only flows of at least this many bytes are analysed by cca.
# [[rule]]
# bytes = \"1M\"
# cca = true
#
# Flows that the first stage of the model calls unknown are classified again by its last stage,
# once they have as many packets as that reads (ten with the model devices).
# [[rule]]
# device = \"unknown\"
# classify-again = true
";

/// The text, with every application in it and what is said of each setting.
#[must_use]
pub fn example() -> String {
    let mut text = String::from(HEAD);
    for entry in APPLICATIONS {
        text.push_str(&format!("\n# {}.\n[{}]\n", entry.about, entry.name));
        if entry.has_rows {
            text.push_str(&format!("output = \"{}.parquet\"\n", entry.name));
            text.push_str(
                "# format = \"parquet\"\n# Replace the file if it exists.\n# force = false\n",
            );
        }
        text.push_str(entry.example);
    }
    text.push_str(RULES);
    text.push_str(page::EXAMPLE);
    text.push_str(stored::EXAMPLE);
    text.push_str(published::EXAMPLE);
    text.push_str(sensors::EXAMPLE);
    text.push_str(networks::EXAMPLE);
    text.push_str(alerting::EXAMPLE);
    text
}

/// What a page shows where no settings say otherwise: everything that asks for none.
pub const USUAL: &str = "\
[traffic]
[flows]
read-names = true
[classify]
model = \"services\"
[cca]
[latency]
";
