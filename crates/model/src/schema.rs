//! What the numbers that a model is given mean, in which order; and a hash of that.

use std::fmt::Write as _;

use packet::Span;
use sha2::{Digest, Sha256};

use crate::identity::Identity;
use crate::sequence;
use crate::subscription::Subscription;

/// How values are arranged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrangement {
    /// One value for each column.
    Row,
    /// Steps of one value for each column, step by step; a step that is not there is `pad`
    /// throughout.
    Sequence {
        /// How many steps.
        steps: usize,
        /// What stands in a step that is not there.
        pad: i64,
    },
    /// One value for each column, of a flow in one window of time.
    Window {
        /// How long a window is.
        every_ns: i64,
    },
}

/// The type of all values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataType {
    /// Signed, 8 bits.
    I8,
    /// Signed, 64 bits.
    I64,
    /// Floating point, 64 bits.
    F64,
}

/// Which headers of a packet in a tunnel are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Headers {
    /// Those inside of tunnels.
    Innermost,
    /// The first.
    Outermost,
}

/// Ordered columns and how they are arranged. Two schemas with one hash are the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeatureSchema {
    /// How values are arranged.
    pub arrangement: Arrangement,
    /// Their type.
    pub data_type: DataType,
    /// What stands for a value that a packet does not have, if that can be.
    pub missing: Option<i64>,
    /// Which headers are meant.
    pub headers: Headers,
    /// Whether values may tell units and networks.
    pub identity: Identity,
    /// Names of the columns, or of the channels of a step.
    pub columns: Vec<String>,
}

impl FeatureSchema {
    /// Header bits of single packets.
    #[must_use]
    pub fn of_packets(subscription: &Subscription, headers: Headers) -> Self {
        Self {
            arrangement: Arrangement::Row,
            data_type: DataType::I8,
            missing: Some(subscription.missing().into()),
            headers,
            identity: Identity::Kept,
            columns: subscription.columns().collect(),
        }
    }

    /// Header bits of the first packets of flows.
    #[must_use]
    pub fn of_flows(subscription: &Subscription, headers: Headers) -> Self {
        let (steps, pad) = (subscription.depth(), subscription.missing().into());
        let arrangement = Arrangement::Sequence { steps, pad };
        Self { arrangement, ..Self::of_packets(subscription, headers) }
    }

    /// Header bits by the names of one packet's: of single packets, of the first packets of flows,
    /// or of flows with numbers in addition to them.
    #[must_use]
    pub fn of_columns(
        columns: Vec<String>,
        packets: Option<usize>,
        headers: Headers,
        numbers: &[String],
    ) -> Self {
        let missing = Some(-1);
        if numbers.is_empty() {
            let arrangement =
                packets.map_or(Arrangement::Row, |steps| Arrangement::Sequence { steps, pad: -1 });
            let (data_type, identity) = (DataType::I8, Identity::Kept);
            return Self { arrangement, data_type, missing, headers, identity, columns };
        }
        let of_packet = |packet| columns.iter().map(move |name| format!("pkt{packet}_{name}"));
        let bits = (0..packets.unwrap_or(1)).flat_map(of_packet);
        Self {
            arrangement: Arrangement::Row,
            data_type: DataType::F64,
            missing,
            headers,
            identity: Identity::Kept,
            columns: bits.chain(numbers.iter().cloned()).collect(),
        }
    }

    /// Flows in windows of a length: header bits of so many first packets of the window by the
    /// names of one packet's, and numbers.
    #[must_use]
    pub fn of_window(
        columns: &[String],
        packets: usize,
        headers: Headers,
        numbers: &[String],
        every: Span,
    ) -> Self {
        let of_packet = |packet| columns.iter().map(move |name| format!("pkt{packet}_{name}"));
        let bits = (0..packets).flat_map(of_packet);
        Self {
            arrangement: Arrangement::Window { every_ns: every.as_ns() },
            data_type: DataType::F64,
            missing: Some(-1),
            headers,
            identity: Identity::Kept,
            columns: bits.chain(numbers.iter().cloned()).collect(),
        }
    }

    /// Sizes, directions and gaps of the first packets of flows.
    #[must_use]
    pub fn of_steps(steps: usize, headers: Headers) -> Self {
        Self {
            arrangement: Arrangement::Sequence { steps, pad: 0 },
            data_type: DataType::I64,
            missing: None,
            headers,
            identity: Identity::Kept,
            columns: sequence::CHANNELS.map(str::to_owned).to_vec(),
        }
    }

    /// The same columns, holding what this leaves of them.
    #[must_use]
    pub fn with_identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// The text that is hashed, a line for each thing, each line ended.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from("wirelens features 1\n");
        // Writing to a string cannot fail.
        let _ = match self.arrangement {
            Arrangement::Row => writeln!(text, "layout row"),
            Arrangement::Sequence { steps, pad } => writeln!(
                text,
                "layout sequence steps={steps} channels={} pad={pad}",
                self.columns.len()
            ),
            Arrangement::Window { every_ns } => writeln!(text, "layout window ns={every_ns}"),
        };
        let data_type = match self.data_type {
            DataType::I8 => "i8",
            DataType::I64 => "i64",
            DataType::F64 => "f64",
        };
        let headers = match self.headers {
            Headers::Innermost => "innermost",
            Headers::Outermost => "outermost",
        };
        let missing = self.missing.map_or(String::from("none"), |missing| missing.to_string());
        let _ = writeln!(text, "dtype {data_type}\nmissing {missing}\nheaders {headers}");
        if let Some(line) = self.identity.schema_line() {
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "columns {}", self.columns.len());
        for column in &self.columns {
            text.push_str(column);
            text.push('\n');
        }
        text
    }

    /// SHA-256 of [`text`](Self::text), in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        text_hash(&self.text())
    }
}

/// SHA-256 of a text that says what numbers mean, in hexadecimal.
#[must_use]
pub fn text_hash(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SubscriptionRequest;

    /// As `sha256sum` has it of the text. A change of it changes what every model
    /// in the world was trained on.
    #[test]
    fn hashes_are_the_same_for_ever() {
        let some =
            Subscription::new(&SubscriptionRequest { depth: 3, ..SubscriptionRequest::default() })
                .unwrap();
        let packets = FeatureSchema::of_packets(&some, Headers::Innermost);
        assert_eq!(packets.columns.len(), 1024);
        assert!(packets.text().starts_with(
            "wirelens features 1\nlayout row\ndtype i8\nmissing -1\nheaders innermost\n\
             columns 1024\nipv4_ver_0\n"
        ));
        let steps = FeatureSchema::of_steps(3, Headers::Outermost);
        assert_eq!(
            steps.text(),
            "wirelens features 1\nlayout sequence steps=3 channels=3 pad=0\ndtype i64\n\
             missing none\nheaders outermost\ncolumns 3\nsize_bytes\ndirection\ngap_ns\n"
        );
        let flows = FeatureSchema::of_flows(&some, Headers::Innermost);
        let hashes = [packets.hash(), flows.hash(), steps.hash()];
        assert_eq!(hashes.each_ref().map(|hash| hash.get(..16)), HASHES.map(Some));
    }

    const HASHES: [&str; 3] = ["501a6b5e71d3add2", "2093523afca95c79", "9707f5670485002d"];

    #[test]
    fn every_part_changes_the_hash() {
        let some = Subscription::new(&SubscriptionRequest::default()).unwrap();
        let schema = FeatureSchema::of_packets(&some, Headers::Innermost);
        let mut others = [
            FeatureSchema::of_flows(&some, Headers::Innermost),
            FeatureSchema { missing: Some(0), ..schema.clone() },
            FeatureSchema { data_type: DataType::I64, ..schema.clone() },
            FeatureSchema { headers: Headers::Outermost, ..schema.clone() },
            schema.clone().with_identity(Identity::Masked),
            schema.clone(),
        ];
        others[5].columns.swap(0, 1);
        let mut hashes: Vec<_> = others.iter().map(FeatureSchema::hash).collect();
        hashes.push(schema.hash());
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 7);
    }
}
