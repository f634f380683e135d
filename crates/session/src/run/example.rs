//! The settings file that `wirelens run --init` writes.

use crate::applications::APPLICATIONS;

const HEAD: &str = "\
# Settings of `wirelens run -c wirelens.toml`. Lines that begin with # show what a setting is unless
# it is given. `wirelens run -c wirelens.toml --check` explains every mistake.

[input]
# Captures: files, folders of captures, or - for standard input.
read = [\"capture.pcap\"]
# Or an interface; several as one: [\"eth0\", \"eth1\"]; any listens on all.
# interface = \"eth0\"
# filter = \"tcp port 443\"
# count = 1000000
# snaplen = 0
# Of interfaces: memory of each for frames that wait, and when to stop.
# buffer-size = \"64M\"
# duration = \"1h\"
# promiscuous = true
# latency = \"throughput\"
# Replay captures at so many times their own speed.
# pace = 1.0

[run]
# Seed of the hash that spreads flows [default: drawn at start].
# seed = 1
# Threads for captures; rows do not depend on it [default: one per core].
# threads = 2
";

const RULES: &str = "
# Verdicts steer verdicts: the first rule that fits a flow counts, from its next packet on.
# [[rule]]
# service = [\"ssh\", \"telnet\"]
# keep = \"full\"
#
# [[rule]]
# anomaly = \"any\"
# keep = \"full\"
#
# Only flows of many bytes are looked at by cca.
# [[rule]]
# bytes = \"1M\"
# cca = true
#
# Flows that the first stage of the model calls unknown are classified again by its last stage,
# once they have as many packets as that looks at (ten of the model devices).
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
    text
}
