//! What a record of the ledger says.

use serde_json::{Value, json};

use super::head::{Digest, hex, unhex};
use super::state::LedgerState;

/// Why a file was deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Deletion {
    /// To make room for new packets.
    Room,
    /// For its age.
    Age,
    /// By another program: the recorder only noticed that it is gone.
    Gone,
}

impl Deletion {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Room, Self::Age, Self::Gone];

    /// Its name in the ledger.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Age => "age",
            Self::Gone => "gone",
        }
    }
}

/// A chunk that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkEntry {
    /// The name of its file, without suffix.
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) packets: u64,
    /// The latest timestamp of its packets.
    pub(crate) last_ns: i64,
    /// Of its bytes as they are in the file, before it is compressed.
    pub(crate) digest: Digest,
    /// It was found at a start: the recorder that wrote it did not live to record it.
    pub(crate) is_found: bool,
}

/// A chunk that could not be written, while a later one of its file was: the place remains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hole {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// That were to be there, and are counted as lost.
    pub(crate) packets: u64,
    pub(crate) cause: String,
    /// Of what was to be written: a disk may take all of it and report an error.
    pub(crate) digest: Digest,
}

impl Hole {
    pub(crate) const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "at": self.offset, "len": self.len, "packets": self.packets, "cause": self.cause,
            "blake3": hex(&self.digest),
        })
    }

    pub(super) fn read(content: &Value) -> Option<Self> {
        let number = |name: &str| content.get(name)?.as_u64();
        Some(Self {
            offset: number("at")?,
            len: number("len")?,
            packets: number("packets")?,
            cause: content.get("cause")?.as_str()?.to_owned(),
            digest: unhex(content.get("blake3")?.as_str()?)?,
        })
    }
}

/// What a record says.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Entry {
    /// A segment begins: the sums of all before it.
    Segment(Box<LedgerState>),
    /// A recorder starts; the one before it ended properly or not. `boot` names the time since the
    /// machine was started; where `syncs`, chunks are recorded once the disk has them.
    Start {
        version: String,
        is_clean: bool,
        account: String,
        boot: String,
        syncs: bool,
    },
    /// A recorder ended properly. All files that were complete are synced, except so many: the disk
    /// reported an error, or took longer than the recorder waits.
    Stop {
        account: String,
        unsynced: u64,
    },
    /// From here on packets are stored by another mode.
    Mode {
        generation: u64,
        name: String,
    },
    Chunk(ChunkEntry),
    /// A place of a file is a hole.
    Failed {
        file: String,
        hole: Hole,
    },
    /// A file that was there before the ledger: nothing is known of its content.
    Earlier {
        file: String,
        chunks: u64,
        end: u64,
        packets: u64,
    },
    /// A file is deleted now.
    Delete {
        file: String,
        cause: Deletion,
        packets: u64,
        bytes: u64,
    },
    /// The disk has all chunks of a file that are recorded so far.
    Synced {
        file: String,
    },
    /// The disk reported an error when it was to take a file: it may lack any of its chunks, even
    /// if it is asked again without one.
    Unsynced {
        file: String,
        cause: String,
    },
    /// After a power cut the disk had not all that was recorded of a file behind its synced part:
    /// these records, of so many chunks, no longer hold. What is there follows as found. So many
    /// of their packets are not.
    Lost {
        file: String,
        chunks: u64,
        packets: u64,
    },
    /// The sums over all packets, as `account` has them.
    Account {
        text: String,
    },
    /// A kind of a later version.
    Unknown,
}

impl Entry {
    /// Its kind and content, in JSON.
    pub(super) fn json(&self) -> (&'static str, Value) {
        match self {
            Self::Segment(state) => ("segment", state.json()),
            Self::Start { version, is_clean, account, boot, syncs } => {
                let content = json!({
                    "version": version, "clean": is_clean, "account": account, "boot": boot,
                    "sync": syncs,
                });
                ("start", content)
            }
            Self::Stop { account, unsynced } => {
                ("stop", json!({"account": account, "unsynced": unsynced}))
            }
            Self::Mode { generation, name } => {
                ("mode", json!({"generation": generation, "name": name}))
            }
            Self::Chunk(chunk) => {
                let kind = if chunk.is_found { "found" } else { "chunk" };
                let content = json!({
                    "file": chunk.file, "at": chunk.offset, "len": chunk.len,
                    "packets": chunk.packets, "last_ns": chunk.last_ns,
                    "blake3": hex(&chunk.digest),
                });
                (kind, content)
            }
            Self::Failed { file, hole } => {
                let mut content = hole.json();
                content["file"] = Value::from(file.as_str());
                ("failed", content)
            }
            Self::Earlier { file, chunks, end, packets } => {
                let content =
                    json!({"file": file, "chunks": chunks, "end": end, "packets": packets});
                ("earlier", content)
            }
            Self::Delete { file, cause, packets, bytes } => {
                let cause = cause.name();
                let content =
                    json!({"file": file, "cause": cause, "packets": packets, "bytes": bytes});
                ("delete", content)
            }
            Self::Synced { file } => ("synced", json!({"file": file})),
            Self::Unsynced { file, cause } => ("unsynced", json!({"file": file, "cause": cause})),
            Self::Lost { file, chunks, packets } => {
                ("lost", json!({"file": file, "chunks": chunks, "packets": packets}))
            }
            Self::Account { text } => ("account", json!({"text": text})),
            Self::Unknown => ("unknown", Value::Null),
        }
    }

    /// What [`Entry::json`] wrote; `None` where the content of a known kind makes no sense.
    pub(super) fn read(kind: &str, content: &Value) -> Option<Self> {
        let text = |name: &str| content.get(name)?.as_str().map(str::to_owned);
        let number = |name: &str| content.get(name)?.as_u64();
        Some(match kind {
            "segment" => Self::Segment(Box::new(LedgerState::read(content)?)),
            "start" => Self::Start {
                version: text("version")?,
                is_clean: content.get("clean")?.as_bool()?,
                account: text("account")?,
                // Not yet said by the first recorders with a ledger.
                boot: text("boot").unwrap_or_default(),
                syncs: content.get("sync").and_then(Value::as_bool).unwrap_or(false),
            },
            "stop" => {
                // Not yet said by the first recorders with a ledger.
                let unsynced = number("unsynced").unwrap_or(0);
                Self::Stop { account: text("account")?, unsynced }
            }
            "mode" => Self::Mode { generation: number("generation")?, name: text("name")? },
            "chunk" | "found" => Self::Chunk(ChunkEntry {
                file: text("file")?,
                offset: number("at")?,
                len: number("len")?,
                packets: number("packets")?,
                last_ns: content.get("last_ns")?.as_i64()?,
                digest: unhex(&text("blake3")?)?,
                is_found: kind == "found",
            }),
            "failed" => Self::Failed { file: text("file")?, hole: Hole::read(content)? },
            "earlier" => Self::Earlier {
                file: text("file")?,
                chunks: number("chunks")?,
                end: number("end")?,
                packets: number("packets")?,
            },
            "delete" => {
                let name = text("cause")?;
                let cause = Deletion::ALL.into_iter().find(|cause| cause.name() == name)?;
                let (packets, bytes) = (number("packets")?, number("bytes")?);
                Self::Delete { file: text("file")?, cause, packets, bytes }
            }
            "synced" => Self::Synced { file: text("file")? },
            "unsynced" => Self::Unsynced { file: text("file")?, cause: text("cause")? },
            "lost" => Self::Lost {
                file: text("file")?,
                chunks: number("chunks")?,
                packets: number("packets")?,
            },
            "account" => Self::Account { text: text("text")? },
            _ => Self::Unknown,
        })
    }
}
