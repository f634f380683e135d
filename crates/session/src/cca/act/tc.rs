//! The queue of a device, parsed from the output of `tc`, and the commands that change it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The number of our queueing discipline, by which one that was left behind is known.
pub(super) const HANDLE: &str = "cca:";
const MAJOR: u32 = 0x0cca;
/// Of all classes together.
const ROOT_MINOR: u32 = 1;
/// Of flows without a class of their own.
const REST_MINOR: u32 = 2;
/// Of the first control.
const CONTROL_MINOR: u32 = 0x10;
/// What is queued in a class is a queueing discipline with a number as well.
const LEAF_MAJOR: u32 = 0xcc00;

/// A full packet of Ethernet.
const PACKET_BYTES: u64 = 1514;
/// No class is too small for the bursts of a few flows.
const BUFFER_BYTES_MIN: u64 = 10 * PACKET_BYTES;
/// A class that is empty needs no rate, and htb wants one.
const RATE_BIT_MIN: u64 = 8_000;
/// Packets of one round; more would come in bursts.
const ROUND_MAX: u64 = 32;

/// What stands on a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DeviceQdisc {
    /// What the kernel puts there by itself.
    Default { kind: String },
    /// A token bucket with a plain queue of its own limit.
    Tbf(Tbf),
    /// Ours, and no run holds it.
    Ours { under: Option<Tbf> },
    /// Something of the operator's.
    Other { kind: String, handle: String },
}

/// A token bucket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tbf {
    /// Of its one class.
    pub(super) class: String,
    pub(super) rate_bit: u64,
    pub(super) limit_bytes: u64,
}

impl DeviceQdisc {
    /// Reads what `tc -j -s -r qdisc show dev DEV invisible` prints.
    pub(super) fn read(shown: &Value) -> Option<Self> {
        let all = shown.as_array()?;
        let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
        let root = all.iter().find(|one| one.get("root") == Some(&Value::Bool(true)))?;
        let (kind, handle) = (text(root, "kind")?, text(root, "handle")?);
        if kind == "htb" && handle == HANDLE {
            return Some(Self::Ours { under: None });
        }
        if handle == "0:" {
            return Some(Self::Default { kind });
        }
        if kind != "tbf" {
            return Some(Self::Other { kind, handle });
        }
        let option = |of: &Value, name: &str| of.get("options")?.get(name)?.as_u64();
        let class = format!("{handle}1");
        let child = all.iter().find(|one| text(one, "parent").as_deref() == Some(&class));
        let (child_kind, child_handle) = match child {
            Some(child) => (text(child, "kind")?, text(child, "handle")?),
            None => (String::from("bfifo"), String::new()),
        };
        let own_limit = option(root, "limit")?;
        let child_limit = child.and_then(|child| option(child, "limit"));
        let is_plain = is_kernels(&child_handle) && child_limit.is_none_or(|of| of == own_limit);
        let rate_bit = option(root, "rate")?.saturating_mul(8);
        let tbf = Tbf { class, rate_bit, limit_bytes: own_limit };
        Some(match child_kind.as_str() {
            "htb" if child_handle == HANDLE => Self::Ours { under: Some(tbf) },
            "bfifo" if is_plain => Self::Tbf(tbf),
            _ => Self::Other { kind: child_kind, handle: child_handle },
        })
    }
}

/// Whether a handle is none, or of those from 8000: on, which the kernel gives. One that an
/// operator gave, or a limit, would be lost if every process that knows it were killed.
fn is_kernels(handle: &str) -> bool {
    let major = handle.trim_end_matches(':');
    major.is_empty() || u32::from_str_radix(major, 16).is_ok_and(|of| of == 0 || of >= 0x8000)
}

/// The queueing discipline that the kernel put on a device by itself and would not put there again,
/// since its default is another now. That of a device without a queue does not depend on it.
pub(super) fn other_default(shown: &Value, default: &str) -> Option<String> {
    let by_kernel = |one: &&Value| one.get("handle").and_then(Value::as_str) == Some("0:");
    let all = shown.as_array()?.iter().filter(by_kernel);
    let mut kinds = all.filter_map(|one| one.get("kind")?.as_str());
    let fixed = ["mq", "noqueue", "noop", default];
    kinds.find(|kind| !fixed.contains(kind)).map(str::to_owned)
}

/// Packets that wait on a device, and are lost when what holds them goes.
pub(super) fn waiting(shown: &Value) -> u64 {
    let all = shown.as_array().map_or(&[][..], Vec::as_slice);
    let root = all.iter().find(|one| one.get("root") == Some(&Value::Bool(true)));
    root.and_then(|root| root.get("qlen")?.as_u64()).unwrap_or(0)
}

/// What a class has sent and dropped, from the output of `tc` for a device.
pub(super) fn counts(shown: &Value, minor: u32) -> Option<&Value> {
    let parent = format!("{HANDLE}{minor:x}");
    shown.as_array()?.iter().find(|one| one.get("parent").and_then(Value::as_str) == Some(&parent))
}

/// A queue that is cut into classes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    pub(super) device: String,
    pub(super) under: Option<Tbf>,
    pub(super) rate_bit: u64,
    pub(super) buffer_bytes: u64,
}

/// A class's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) minor: u32,
    pub(super) flows: usize,
    pub(super) rate_bit: u64,
    pub(super) buffer_bytes: u64,
}

/// The minor number of a control's class, or that of the rest.
pub(super) fn minor(class: Option<usize>) -> u32 {
    class.map_or(REST_MINOR, |class| CONTROL_MINOR + u32::try_from(class).unwrap_or(0))
}

/// As the kernel names a class.
pub(super) const fn class_id(minor: u32) -> u32 {
    MAJOR << 16 | minor
}

impl Queue {
    /// Puts it where the queue was: flows without a class go to that of the rest.
    pub(super) fn begin(&self) -> Vec<String> {
        let Self { device, under, rate_bit, .. } = self;
        let at = under.as_ref().map_or(String::from("root"), |tbf| format!("parent {}", tbf.class));
        // Under a tbf it is the tbf that lets packets go, so nothing here may be slower.
        let root_bit = if under.is_some() { rate_bit.saturating_mul(2) } else { *rate_bit };
        let mut commands = vec![
            format!("qdisc replace dev {device} {at} handle {HANDLE} htb default {REST_MINOR:x}"),
            self.class(HANDLE, ROOT_MINOR, root_bit, ROUND_MAX),
        ];
        commands.extend(self.part(self.parts(&[(REST_MINOR, 1)])[0]));
        commands
    }

    /// How classes of so many flows share it, by minor number; one of the rest counts as one flow
    /// at least, for what is not followed.
    pub(super) fn parts(&self, sizes: &[(u32, usize)]) -> Vec<Part> {
        let weight = |minor, flows: usize| if minor == REST_MINOR { flows.max(1) } else { flows };
        let sum: usize = sizes.iter().map(|&(minor, flows)| weight(minor, flows)).sum();
        let of = |whole: u64, part: usize| {
            u64::try_from(u128::from(whole) * part as u128 / sum.max(1) as u128).unwrap_or(whole)
        };
        let part = |&(minor, flows): &(u32, usize)| Part {
            minor,
            flows,
            rate_bit: of(self.rate_bit, weight(minor, flows)).max(RATE_BIT_MIN),
            buffer_bytes: of(self.buffer_bytes, weight(minor, flows)).max(BUFFER_BYTES_MIN),
        };
        sizes.iter().map(part).collect()
    }

    /// Makes a class, or changes it; what waits in it stays.
    pub(super) fn part(&self, part: Part) -> [String; 2] {
        let (device, minor) = (&self.device, part.minor);
        let (leaf, limit) = (LEAF_MAJOR | minor, part.buffer_bytes);
        let parent = format!("{HANDLE}{ROOT_MINOR:x}");
        // What a class leaves is lent in this proportion.
        let round = (part.flows as u64).clamp(1, ROUND_MAX);
        [
            self.class(&parent, minor, part.rate_bit, round),
            format!(
                "qdisc replace dev {device} parent {HANDLE}{minor:x} handle {leaf:x}: \
                 bfifo limit {limit}"
            ),
        ]
    }

    fn class(&self, parent: &str, minor: u32, rate_bit: u64, round: u64) -> String {
        let device = &self.device;
        let most_bit = self.rate_bit.saturating_mul(if self.under.is_some() { 2 } else { 1 });
        let most_bit = most_bit.max(rate_bit);
        // As much as leaves within a millisecond, which is a tick of slow kernels' clocks.
        let burst = (most_bit / 8_000).max(2 * PACKET_BYTES);
        let quantum = round * PACKET_BYTES;
        format!(
            "class replace dev {device} parent {parent} classid {HANDLE}{minor:x} htb \
             rate {rate_bit}bit ceil {most_bit}bit burst {burst} cburst {burst} quantum {quantum}"
        )
    }

    /// Puts back what was there before.
    pub(super) fn end(&self) -> String {
        end(&self.device, self.under.as_ref())
    }
}

/// Words that have the queue of a device shown, with counts.
pub(super) const fn show(device: &str) -> [&str; 8] {
    ["-j", "-s", "-r", "qdisc", "show", "dev", device, "invisible"]
}

/// Removes ours, and puts back what was there before.
pub(super) fn end(device: &str, under: Option<&Tbf>) -> String {
    match under {
        None => format!("qdisc del dev {device} root handle {HANDLE}"),
        Some(Tbf { class, limit_bytes, .. }) => {
            format!("qdisc replace dev {device} parent {class} bfifo limit {limit_bytes}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tbf() -> Value {
        json!({"kind": "tbf", "handle": "1:", "root": true, "qlen": 3,
               "options": {"rate": 2_500_000, "burst": 10_000, "lat": 36_000, "limit": 100_000}})
    }

    #[test]
    fn what_stands_there_is_told_apart() {
        let none = json!([{"kind": "noqueue", "handle": "0:", "root": true, "options": {}}]);
        assert_eq!(DeviceQdisc::read(&none), Some(DeviceQdisc::Default { kind: "noqueue".into() }));
        let bucket = Tbf { class: "1:1".into(), rate_bit: 20_000_000, limit_bytes: 100_000 };
        let fifo =
            json!({"kind": "bfifo", "handle": "0:", "parent": "1:1", "options": {"limit": 90_000}});
        let own_limit = DeviceQdisc::Other { kind: "bfifo".into(), handle: "0:".into() };
        assert_eq!(DeviceQdisc::read(&json!([tbf(), fifo])), Some(own_limit));
        for (handle, is_plain) in [("0:", true), ("80e3:", true), ("10:", false)] {
            let fifo = json!({"kind": "bfifo", "handle": handle, "parent": "1:1",
                              "options": {"limit": 100_000}});
            let read = DeviceQdisc::read(&json!([tbf(), fifo]));
            assert_eq!(read == Some(DeviceQdisc::Tbf(bucket.clone())), is_plain, "{handle}");
        }
        assert_eq!(waiting(&json!([tbf()])), 3);
        let ours = json!({"kind": "htb", "handle": "cca:", "parent": "1:1", "options": {}});
        assert_eq!(
            DeviceQdisc::read(&json!([tbf(), ours])),
            Some(DeviceQdisc::Ours { under: Some(bucket) })
        );
        let ours = json!([{"kind": "htb", "handle": "cca:", "root": true, "options": {}}]);
        assert_eq!(DeviceQdisc::read(&ours), Some(DeviceQdisc::Ours { under: None }));
        let codel = json!({"kind": "fq_codel", "handle": "2:", "parent": "1:1", "options": {}});
        let other = DeviceQdisc::Other { kind: "fq_codel".into(), handle: "2:".into() };
        assert_eq!(DeviceQdisc::read(&json!([tbf(), codel])), Some(other));
        let htb = json!([{"kind": "htb", "handle": "1:", "root": true, "options": {}}]);
        let other = DeviceQdisc::Other { kind: "htb".into(), handle: "1:".into() };
        assert_eq!(DeviceQdisc::read(&htb), Some(other));
        assert_eq!(DeviceQdisc::read(&json!([])), None);
    }

    #[test]
    fn a_default_of_earlier_is_not_what_comes_back() {
        let one = |kind, parent: &str| json!({"kind": kind, "handle": "0:", "parent": parent});
        let root = |kind| json!({"kind": kind, "handle": "0:", "root": true});
        let multi = json!([root("mq"), one("fq_codel", ":1"), one("fq_codel", ":2")]);
        assert_eq!(other_default(&multi, "fq_codel"), None);
        assert_eq!(other_default(&multi, "fq").as_deref(), Some("fq_codel"));
        let filters = json!({"kind": "clsact", "handle": "ffff:", "parent": "ffff:fff1"});
        let single = json!([root("pfifo_fast"), filters]);
        assert_eq!(other_default(&single, "pfifo_fast"), None);
        assert_eq!(other_default(&single, "fq_codel").as_deref(), Some("pfifo_fast"));
        assert_eq!(other_default(&json!([root("noqueue")]), "fq_codel"), None);
    }

    #[test]
    fn classes_share_by_their_flows() {
        let queue = Queue {
            device: "out".into(),
            under: None,
            rate_bit: 20_000_000,
            buffer_bytes: 100_000,
        };
        let parts = queue.parts(&[(minor(None), 0), (minor(Some(0)), 1), (minor(Some(3)), 3)]);
        let rates: Vec<_> = parts.iter().map(|part| (part.minor, part.rate_bit)).collect();
        assert_eq!(rates, [(2, 4_000_000), (0x10, 4_000_000), (0x13, 12_000_000)]);
        assert_eq!(parts[2].buffer_bytes, 60_000);
        assert_eq!(parts[0].buffer_bytes, 20_000);
        let [class, leaf] = queue.part(parts[2]);
        assert_eq!(
            class,
            "class replace dev out parent cca:1 classid cca:13 htb rate 12000000bit ceil \
             20000000bit burst 3028 cburst 3028 quantum 4542"
        );
        assert_eq!(leaf, "qdisc replace dev out parent cca:13 handle cc13: bfifo limit 60000");
        assert_eq!(class_id(parts[2].minor), 0x0cca_0013);
    }

    #[test]
    fn under_a_tbf_it_is_the_tbf_that_is_slow() {
        let tbf = Tbf { class: "1:1".into(), rate_bit: 20_000_000, limit_bytes: 100_000 };
        let queue = Queue {
            device: "out".into(),
            under: Some(tbf),
            rate_bit: 20_000_000,
            buffer_bytes: 100_000,
        };
        let begin = queue.begin();
        assert_eq!(begin[0], "qdisc replace dev out parent 1:1 handle cca: htb default 2");
        assert!(begin[1].contains("classid cca:1 htb rate 40000000bit"), "{}", begin[1]);
        assert!(begin[2].contains("rate 20000000bit ceil 40000000bit"), "{}", begin[2]);
        assert_eq!(queue.end(), "qdisc replace dev out parent 1:1 bfifo limit 100000");
    }
}
