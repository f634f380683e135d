//! The files without which a program does not start: itself, and what the kernel loads for it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Bytes at the beginning of a program in which its loader is named.
const HEAD_LEN: u64 = 64 << 10;

/// `\x7fELF`, and 64 bits.
const MAGIC: [u8; 5] = [0x7f, b'E', b'L', b'F', 2];
/// Where an ELF file says where its segments are listed, how long an entry is, and how many.
const LIST_AT: usize = 32;
const ENTRY_LEN_AT: usize = 54;
const COUNT_AT: usize = 56;
/// Of an entry: that it names the loader, where its name is, and how long.
const PT_INTERP: u32 = 3;
const NAME_AT: usize = 8;
const NAME_LEN_AT: usize = 32;

/// The program, and its loader if it has one.
///
/// # Errors
/// It cannot be read.
pub(crate) fn files(program: &Path) -> io::Result<Vec<PathBuf>> {
    let mut head = Vec::new();
    File::open(program)?.take(HEAD_LEN).read_to_end(&mut head)?;
    Ok([program.to_owned()].into_iter().chain(loader(&head)).collect())
}

/// The loader that an ELF file of 64 bits names, in the byte order of this machine.
fn loader(head: &[u8]) -> Option<PathBuf> {
    if !head.starts_with(&MAGIC) {
        return None;
    }
    let half = |at: usize| Some(u16::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let wide =
        |at: usize| usize::try_from(u64::from_ne_bytes(*head.get(at..)?.first_chunk()?)).ok();
    let (list, len, count) = (wide(LIST_AT)?, half(ENTRY_LEN_AT)?, half(COUNT_AT)?);
    let entries = (0..usize::from(count)).map(|index| index * usize::from(len));
    let mut entries = entries.filter_map(|offset| list.checked_add(offset));
    let entry = entries.find(|&at| word(at) == Some(PT_INTERP))?;
    let (at, len) = (wide(entry + NAME_AT)?, wide(entry + NAME_LEN_AT)?);
    let name = head.get(at..at.checked_add(len)?)?.split(|&byte| byte == 0).next()?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name))).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_a_program_is_found_and_a_head_that_is_cut_names_none() {
        let own = files(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.len() == 2 && own[1].is_file(), "{own:?}");
        let mut head = vec![0; 256];
        head[..5].copy_from_slice(&MAGIC);
        head[LIST_AT] = 64;
        head[ENTRY_LEN_AT] = 56;
        head[COUNT_AT] = 1;
        head[64] = 3;
        head[64 + NAME_AT] = 128;
        head[64 + NAME_LEN_AT] = 6;
        head[128..134].copy_from_slice(b"/ld.so");
        assert_eq!(loader(&head), Some(PathBuf::from("/ld.so")));
        for len in 0..134 {
            assert_eq!(loader(&head[..len]), None, "{len}");
        }
        assert_eq!(loader(b"#!/bin/sh\n"), None);
    }
}
