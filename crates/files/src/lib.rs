//! Files, folders and sockets that the program makes: only their owner can read them unless asked
//! otherwise, and no name leads through a symbolic link to something else.
//!
//! What is written here has addresses, names and packets of people. Runs have the rights of root,
//! and write where others may: a link that another user put in a folder would have root empty or
//! fill any file. Folders on the way may be links, as that is where a user asks for the file to be.
//!
//! Nothing that exists has its permissions changed, except for locks.

#![forbid(unsafe_code)]

mod folder;
mod lock;
mod mode;
mod open;
mod socket;
mod stream;

pub use folder::{
    check_folder, check_owner, create_folder, folder_of, is_of, is_ours, is_path_of, sync_folder,
};
pub use lock::open_lock;
pub use mode::FileMode;
pub use open::{
    append, append_log, create, create_direct, create_like, ends_torn, open, open_to_write,
};
pub use socket::{connect, listen};
pub use stream::{descriptor, is_descriptor, open_stream};
