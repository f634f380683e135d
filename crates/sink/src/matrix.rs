//! A matrix of small integers as NumPy's `.npy` (format version 1.0): mapped into memory with one
//! call, and read by whatever reads NumPy's files.
//!
//! A `.npy` says at its beginning how many rows it has. That is known at the end, so room is left
//! for it, and a pipe cannot be written to.

use std::io::{self, BufWriter, Write as _};

use crate::OutputFile;

/// The header with its padding: a multiple of 64, as the format asks for, with room for two
/// numbers of 20 digits.
const HEADER_LEN: usize = 128;

/// Magic, version, and the length of what follows.
const PREFIX_LEN: usize = 10;

/// Bytes held back.
const BUFFER_LEN: usize = 256 * 1024;

/// Writes rows of `int8` in C order.
pub struct MatrixWriter {
    out: BufWriter<OutputFile>,
    column_count: usize,
    row_count: u64,
}

impl MatrixWriter {
    /// For rows of so many values, in a file that is none of
    /// [`is_stream`](OutputFile::is_stream).
    ///
    /// # Errors
    /// An [`OutputError::Write`](crate::OutputError::Write).
    pub fn new(file: OutputFile, column_count: usize) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(BUFFER_LEN, file);
        out.write_all(&header(0, column_count))?;
        Ok(Self { out, column_count, row_count: 0 })
    }

    /// Appends whole rows.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] where `values` are not whole rows; else an
    /// [`OutputError::Write`](crate::OutputError::Write).
    pub fn write(&mut self, values: &[i8]) -> io::Result<()> {
        if !values.len().is_multiple_of(self.column_count) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for chunk in values.chunks(BUFFER_LEN) {
            let mut bytes = [0; 64];
            for piece in chunk.chunks(bytes.len()) {
                for (byte, value) in bytes.iter_mut().zip(piece) {
                    *byte = value.cast_unsigned();
                }
                self.out.write_all(bytes.get(..piece.len()).unwrap_or_default())?;
            }
        }
        self.row_count += (values.len() / self.column_count) as u64;
        Ok(())
    }

    /// Says how many rows there are, and gives the file its name.
    ///
    /// # Errors
    /// [`OutputError`](crate::OutputError).
    pub fn finish(self) -> io::Result<u64> {
        let header = header(self.row_count, self.column_count);
        let mut file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewrite_start(&header).map_err(io::Error::from)?;
        file.finish().map_err(io::Error::from)
    }
}

fn header(row_count: u64, column_count: usize) -> [u8; HEADER_LEN] {
    const TEXT_LEN: usize = HEADER_LEN - PREFIX_LEN;
    let text = format!(
        "{{'descr': '|i1', 'fortran_order': False, 'shape': ({row_count}, {column_count}), }}"
    );
    let mut header = [b' '; HEADER_LEN];
    header[..8].copy_from_slice(b"\x93NUMPY\x01\x00");
    header[8..PREFIX_LEN].copy_from_slice(&(TEXT_LEN as u16).to_le_bytes());
    for (place, byte) in header.iter_mut().skip(PREFIX_LEN).zip(text.bytes()) {
        *place = byte;
    }
    header[HEADER_LEN - 1] = b'\n';
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_numpys() {
        let header = header(u64::MAX, usize::MAX);
        let text = str::from_utf8(&header[PREFIX_LEN..]).unwrap();
        assert_eq!(header[..10], *b"\x93NUMPY\x01\0\x76\0");
        assert!(text.ends_with(" \n") && text.starts_with("{'descr': '|i1', "), "{text:?}");
        assert!(text.contains("'shape': (18446744073709551615, 18446744073709551615), }"));
    }
}
