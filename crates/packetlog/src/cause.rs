//! Why packets that were to be stored are not: counted by the recorder, kept in the account, read
//! back by the log.

use std::fmt;
use std::io;

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why packets that were to be stored are not.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(usize)]
        pub enum Cause { $($(#[$doc])* $name,)* }

        impl Cause {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// A name for settings, events and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

causes! {
    /// All chunks are on their way to the disk.
    WriterBehind = "writer_behind",
    /// The disk has no room.
    DiskFull = "disk_full",
    /// The file system takes no writes.
    ReadOnly = "read_only",
    /// The file or the folder is gone, and could not be made again.
    Gone = "gone",
    /// The disk failed in another way.
    WriteFailed = "write_failed",
    /// The log has as many bytes as it may have.
    LogFull = "log_full",
    /// The recorder's thread has ended.
    WriterEnded = "writer_ended",
}

impl Cause {
    /// What an error of a write means.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        use io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::DiskFull,
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::ReadOnly,
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::StaleNetworkFileHandle => {
                Self::Gone
            }
            _ => Self::WriteFailed,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
