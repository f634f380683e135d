//! One run for a folder.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process;

use files::FileMode;

use crate::HistoryError;

const NAME: &str = "history.lock";

/// Makes the folder and locks it for as long as the file is held. The kernel lets go of the lock
/// of a run that was killed.
pub(crate) fn lock(folder: &Path) -> Result<File, HistoryError> {
    let refused = |source| HistoryError::Folder { folder: folder.to_owned(), source };
    files::create_folder(folder, FileMode::asked()).map_err(refused)?;
    let mut file = files::open_lock(&folder.join(NAME)).map_err(refused)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another run".to_owned(),
                holder => holder.to_owned(),
            };
            return Err(HistoryError::Busy { folder: folder.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(refused(source)),
    }
    // What a message says of this run is of no weight for the lock itself.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "process {}", process::id()));
    Ok(file)
}
