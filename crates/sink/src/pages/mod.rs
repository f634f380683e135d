//! Columns of text and of counts, laid out as Parquet's pages here.
//!
//! Their values are most of what a table of flows has. The column writers of the `parquet` crate
//! take each text as a reference-counted slice, look it up in a hash table, and compare it for the
//! column's least and greatest; that was more than all else that a row costs. What is written is
//! the same format: a dictionary where values repeat, plain values otherwise, in pages of the first
//! version.

mod dictionary;

use std::io;
use std::io::Write;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use dictionary::{Dictionary, hash_bytes, hash_number, pack};

/// Rows of a page: what a reader takes up in one step.
const ROWS_PER_PAGE: usize = 1 << 14;

/// Texts longer than this are not written as a column's minimum or maximum.
const TOLD_LEN_MAX: usize = 64;

/// Writes such columns.
pub(crate) struct Pages {
    compressor: Compressor<'static>,
    page: Vec<u8>,
}

/// The values of a column, those of rows that have one.
pub(crate) enum Values<'a> {
    /// Texts, or bytes: end to end, and where each ends after the first begins.
    Texts(&'a [u8], &'a [i32]),
    /// Numbers without a sign.
    U64(&'a [u64]),
    /// Small ones, which Parquet keeps in four bytes.
    U16(&'a [u16]),
}

impl Values<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Texts(_, ends) => ends.len().saturating_sub(1),
            Self::U64(values) => values.len(),
            Self::U16(values) => values.len(),
        }
    }

    fn text(&self, at: usize) -> &[u8] {
        let Self::Texts(bytes, ends) = self else { return &[] };
        let (Some(&start), Some(&end)) = (ends.get(at), ends.get(at + 1)) else { return &[] };
        bytes.get(start.cast_unsigned() as usize..end.cast_unsigned() as usize).unwrap_or_default()
    }

    /// Appends a value as it is.
    fn put(&self, at: usize, into: &mut Vec<u8>) {
        match self {
            Self::Texts(..) => {
                let text = self.text(at);
                let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
                into.extend_from_slice(&len.to_le_bytes());
                into.extend_from_slice(text);
            }
            Self::U64(values) => {
                into.extend_from_slice(&values.get(at).copied().unwrap_or(0).to_le_bytes());
            }
            Self::U16(values) => {
                let value = u32::from(values.get(at).copied().unwrap_or(0));
                into.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    fn dictionary(&self) -> Option<Dictionary> {
        let count = self.len();
        let number = |values: &[u64], at| hash_number(values.get(at).copied().unwrap_or(0));
        match self {
            Self::Texts(..) => {
                let same = |one, other| self.text(one) == self.text(other);
                Dictionary::find(count, |at| hash_bytes(self.text(at)), same)
            }
            Self::U64(values) => Dictionary::find(
                count,
                |at| number(values, at),
                |one, other| values.get(one) == values.get(other),
            ),
            Self::U16(values) => Dictionary::find(
                count,
                |at| hash_number(values.get(at).copied().unwrap_or(0).into()),
                |one, other| values.get(one) == values.get(other),
            ),
        }
    }

    /// The least and the greatest, of texts where these are few.
    fn statistics(&self, dictionary: Option<&Dictionary>, null_count: u64) -> Statistics {
        let nulls = Some(null_count);
        match self {
            Self::Texts(..) => {
                let texts = dictionary.map(|of| of.firsts.iter().map(|&at| self.text(at as usize)));
                let told = |text: Option<&[u8]>| {
                    text.filter(|text| text.len() <= TOLD_LEN_MAX)
                        .map(|text| ByteArray::from(text.to_vec()))
                };
                let least = told(texts.clone().and_then(Iterator::min));
                let greatest = told(texts.and_then(Iterator::max));
                Statistics::byte_array(least, greatest, None, nulls, false)
            }
            Self::U64(values) => {
                let of = |value: Option<&u64>| value.map(|value| value.cast_signed());
                Statistics::int64(
                    of(values.iter().min()),
                    of(values.iter().max()),
                    None,
                    nulls,
                    false,
                )
            }
            Self::U16(values) => {
                let of = |value: Option<&u16>| value.map(|&value| i32::from(value));
                Statistics::int32(
                    of(values.iter().min()),
                    of(values.iter().max()),
                    None,
                    nulls,
                    false,
                )
            }
        }
    }
}

/// A column's pages so far.
struct Chunk<'a> {
    pages: &'a mut Pages,
    written: TrackedWrite<Vec<u8>>,
    plain_bytes: usize,
}

impl Chunk<'_> {
    /// Writes the page that was laid out.
    fn end_page(&mut self, page: impl FnOnce(Bytes) -> Page) -> Result<(), ParquetError> {
        let Pages { compressor, page: plain } = &mut *self.pages;
        let bytes = compressor.compress(plain).map_err(external)?;
        let page = CompressedPage::new(page(Bytes::from(bytes)), plain.len());
        let spec = SerializedPageWriter::new(&mut self.written).write_page(page)?;
        self.plain_bytes += spec.uncompressed_size;
        plain.clear();
        Ok(())
    }
}

impl Pages {
    pub(crate) fn new() -> Result<Self, ParquetError> {
        let level = ZstdLevel::default().compression_level();
        Ok(Self { compressor: Compressor::new(level).map_err(external)?, page: Vec::new() })
    }

    /// What columns written elsewhere are compressed with, and these.
    pub(crate) fn compression() -> Compression {
        Compression::ZSTD(ZstdLevel::default())
    }

    /// Writes the next column of a row group: which rows have a value, and the values.
    pub(crate) fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        column: ColumnDescPtr,
        values: &Values<'_>,
        presence: Option<&[bool]>,
    ) -> Result<(), ParquetError> {
        let row_count = presence.map_or(values.len(), <[bool]>::len);
        let dictionary = values.dictionary();
        let encoding =
            if dictionary.is_some() { Encoding::RLE_DICTIONARY } else { Encoding::PLAIN };
        self.page.clear();
        let written = TrackedWrite::new(Vec::new());
        let mut chunk = Chunk { pages: self, written, plain_bytes: 0 };
        if let Some(Dictionary { firsts, .. }) = &dictionary {
            firsts.iter().for_each(|&at| values.put(at as usize, &mut chunk.pages.page));
            let num_values = count(firsts.len());
            let encoding = Encoding::PLAIN;
            chunk.end_page(|buf| Page::DictionaryPage {
                buf,
                num_values,
                encoding,
                is_sorted: false,
            })?;
        }
        let first_data = chunk.written.bytes_written();
        let mut next = 0;
        for start in (0..row_count).step_by(ROWS_PER_PAGE) {
            let len = ROWS_PER_PAGE.min(row_count - start);
            let page = &mut chunk.pages.page;
            let have = match presence.and_then(|presence| presence.get(start..start + len)) {
                Some(presence) => put_levels(presence, page),
                None => len,
            };
            put_values(values, dictionary.as_ref(), next..next + have, page);
            next += have;
            let levels = Encoding::RLE;
            chunk.end_page(|buf| Page::DataPage {
                buf,
                num_values: count(len),
                encoding,
                def_level_encoding: levels,
                rep_level_encoding: levels,
                statistics: None,
            })?;
        }
        let null_count = (row_count - values.len()) as u64;
        let bytes_written = chunk.written.bytes_written();
        let plain_bytes = chunk.plain_bytes;
        let of_dictionary = dictionary.as_ref().map(|_| 0);
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(Self::compression())
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, encoding])
            .set_num_values(signed(row_count))
            .set_total_compressed_size(signed(bytes_written))
            .set_total_uncompressed_size(signed(plain_bytes))
            .set_data_page_offset(signed(first_data))
            .set_dictionary_page_offset(of_dictionary)
            .set_statistics(values.statistics(dictionary.as_ref(), null_count))
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes_written as u64,
            rows_written: row_count as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        let bytes = Bytes::from(chunk.written.into_inner()?);
        group.append_column(&bytes, close)
    }
}

/// Appends which rows have a value, and returns how many have.
fn put_levels(presence: &[bool], page: &mut Vec<u8>) -> usize {
    let levels: Vec<u32> = presence.iter().copied().map(u32::from).collect();
    let start = page.len();
    page.extend_from_slice(&[0; 4]);
    pack(&levels, 1, page);
    let len = count(page.len() - start - 4);
    if let Some(place) = page.get_mut(start..start + 4) {
        place.copy_from_slice(&len.to_le_bytes());
    }
    presence.iter().filter(|&&is_present| is_present).count()
}

fn put_values(
    values: &Values<'_>,
    dictionary: Option<&Dictionary>,
    range: std::ops::Range<usize>,
    page: &mut Vec<u8>,
) {
    let Some(dictionary) = dictionary else {
        return range.for_each(|at| values.put(at, page));
    };
    let width = dictionary.width();
    page.push(u8::try_from(width).unwrap_or(u8::MAX));
    pack(dictionary.numbers.get(range).unwrap_or_default(), width, page);
}

/// Groups are bounded far below this.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn external(error: io::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}
