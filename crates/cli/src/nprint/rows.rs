//! Rows of bits on their way out.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use engine::columns::{Columns, Schema, Value};
use model::BitText;
use session::first::bits::{Bits, Shape, put_csv};
use sink::{Existing, Format, MatrixWriter, OutputFile, WriteError, Writer};

use super::args::{NprintFormat, NprintOutputArguments};
use crate::failure::Failure;

/// Text gathered before it is written.
const TEXT_LEN: usize = 256 * 1024;

/// Values gathered in columns before they are handed on.
const VALUES_PER_PIECE: usize = 1 << 18;

/// Where rows go: what stands before the bits, and the bits.
pub(super) enum Rows {
    /// As nPrint writes them.
    Csv(Box<Text>),
    /// Column by column.
    Columns(Box<Table>),
    /// Bits alone, and the rest as separate columns.
    Matrix(Box<Matrix>),
}

pub(super) struct Text {
    out: Output,
    bits: BitText,
    text: Vec<u8>,
    record_len: usize,
    depth: usize,
}

pub(super) enum Output {
    File(OutputFile),
    Stdout(File),
}

pub(super) struct Table {
    out: Writer<Output>,
    columns: Columns,
    bits: Bits,
    rows_per_piece: usize,
}

pub(super) struct Matrix {
    bits: Bits,
    out: MatrixWriter,
    beside: Writer<OutputFile>,
    columns: Columns,
}

impl NprintOutputArguments {
    /// The format that was asked for.
    pub(super) fn chosen(&self) -> Result<NprintFormat, Failure> {
        let is_npy = |path: &Path| path.extension().is_some_and(|suffix| suffix == "npy");
        match (self.format, &self.output) {
            (Some(NprintFormat::Npy), None) => Err(Failure::usage(
                "--format npy: the header of a matrix has its number of rows, so it cannot be \
                 written to a pipe; give a file with -o",
            )),
            (Some(format), _) => Ok(format),
            (None, None) => Ok(NprintFormat::Csv),
            (None, Some(path)) if is_npy(path) => Ok(NprintFormat::Npy),
            (None, Some(path)) => Ok(match Format::from_suffix(path)? {
                Format::Csv => NprintFormat::Csv,
                Format::Jsonl => NprintFormat::Jsonl,
                Format::Parquet => NprintFormat::Parquet,
                Format::Arrow => NprintFormat::Arrow,
            }),
        }
    }

    fn create(&self, path: &Path) -> Result<OutputFile, Failure> {
        let existing = if self.force { Existing::Replace } else { Existing::Refuse };
        Ok(OutputFile::create(path, existing)?)
    }

    fn open(&self) -> Result<Output, Failure> {
        match &self.output {
            Some(path) => Ok(Output::File(self.create(path)?)),
            None => Ok(Output::Stdout(File::from(io::stdout().as_fd().try_clone_to_owned()?))),
        }
    }
}

/// Opens the output for columns of any kind. Not of NumPy's matrices, which hold bits.
pub(super) fn table(
    arguments: &NprintOutputArguments,
    schema: Schema,
) -> Result<Writer<Output>, Failure> {
    let format = match arguments.chosen()? {
        NprintFormat::Csv | NprintFormat::Npy => Format::Csv,
        NprintFormat::Jsonl => Format::Jsonl,
        NprintFormat::Parquet => Format::Parquet,
        NprintFormat::Arrow => Format::Arrow,
    };
    Ok(match arguments.open()? {
        out @ Output::File(_) => Writer::new(format, schema, out)?,
        out @ Output::Stdout(_) => Writer::streaming(format, schema, out)?,
    })
}

impl Rows {
    /// Opens the output, before any work is done for it.
    pub(super) fn create(
        arguments: &NprintOutputArguments,
        shape: &Shape<'_>,
    ) -> Result<Self, Failure> {
        match arguments.chosen()? {
            NprintFormat::Csv => return Text::create(arguments, shape),
            NprintFormat::Npy => return Matrix::create(arguments, shape),
            NprintFormat::Jsonl | NprintFormat::Parquet | NprintFormat::Arrow => {}
        }
        let schema = shape.schema();
        let out = table(arguments, schema)?;
        let rows_per_piece = (VALUES_PER_PIECE / schema.len()).max(1);
        let columns = Columns::new(schema);
        Ok(Self::Columns(Box::new(Table { out, columns, bits: shape.bits(), rows_per_piece })))
    }

    /// Writes a row: what stands before the bits, and the records of its packets, end to end.
    #[inline]
    pub(super) fn push(&mut self, index: &[Value<'_>], records: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Csv(text) => text.push(index, records),
            Self::Columns(table) => table.push(index, records),
            Self::Matrix(matrix) => matrix.push(index, records),
        }
    }

    /// Writes what was held back, and gives files their names.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Csv(mut text) => {
                text.write_out()?;
                text.out.finish()
            }
            Self::Columns(mut table) => {
                table.out.write(&table.columns)?;
                table.out.finish()?.finish()
            }
            Self::Matrix(mut matrix) => {
                matrix.beside.write(&matrix.columns)?;
                matrix.beside.finish()?.finish()?;
                matrix.out.finish().map_err(WriteError::Io)?;
                Ok(())
            }
        }
    }
}

impl Text {
    fn create(arguments: &NprintOutputArguments, shape: &Shape<'_>) -> Result<Rows, Failure> {
        let names = shape.fields.iter().map(|field| field.name.to_owned());
        let names: Vec<_> = names.chain(shape.bit_columns()).collect();
        let mut text = Self {
            out: arguments.open()?,
            bits: BitText::new(shape.subscription),
            text: Vec::with_capacity(TEXT_LEN * 2),
            record_len: shape.subscription.layout().record_len(),
            depth: shape.depth.unwrap_or(1),
        };
        text.text.extend_from_slice(names.join(",").as_bytes());
        text.text.push(b'\n');
        Ok(Rows::Csv(Box::new(text)))
    }

    #[inline]
    fn push(&mut self, index: &[Value<'_>], records: &[u8]) -> Result<(), Failure> {
        for &value in index {
            put_csv(&mut self.text, value);
            self.text.push(b',');
        }
        let mut packets = records.chunks_exact(self.record_len);
        for _ in 0..self.depth {
            match packets.next() {
                Some(record) => self.bits.push(record, &mut self.text),
                None => self.bits.push_absent(&mut self.text),
            }
        }
        // Each value has a comma behind it, the last one as well.
        if let Some(last) = self.text.last_mut() {
            *last = b'\n';
        }
        if self.text.len() >= TEXT_LEN { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<(), Failure> {
        let written = self.out.write_all(&self.text);
        self.text.clear();
        Ok(written.map_err(WriteError::Io)?)
    }
}

impl Table {
    fn push(&mut self, index: &[Value<'_>], records: &[u8]) -> Result<(), Failure> {
        let bits = self.bits.of(records);
        let mut row = Vec::with_capacity(index.len() + bits.len());
        row.extend_from_slice(index);
        row.extend(bits.iter().copied().map(Value::I8));
        self.columns.push_row(&row).map_err(Failure::error)?;
        if self.columns.row_count() >= self.rows_per_piece {
            self.out.write(&self.columns)?;
            self.columns.clear();
        }
        Ok(())
    }
}

impl Matrix {
    fn create(arguments: &NprintOutputArguments, shape: &Shape<'_>) -> Result<Rows, Failure> {
        let Some(path) = &arguments.output else { return Err(Failure::usage("npy needs -o FILE")) };
        let file = arguments.create(path)?;
        if file.is_stream() {
            return Err(Failure::usage(format_args!(
                "{}: the header of a matrix has its number of rows, so it cannot be written to a \
                 pipe; give the name of a file, or write parquet",
                path.display()
            )));
        }
        let mut beside = path.clone().into_os_string();
        beside.push(".index.csv");
        let beside = arguments.create(&PathBuf::from(beside))?;
        let schema: Schema = Vec::leak(shape.fields.to_vec());
        let column_count = shape.subscription.column_count() * shape.depth.unwrap_or(1);
        Ok(Rows::Matrix(Box::new(Self {
            bits: shape.bits(),
            out: MatrixWriter::new(file, column_count).map_err(WriteError::Io)?,
            beside: Writer::to_file(Format::Csv, schema, beside)?,
            columns: Columns::new(schema),
        })))
    }

    fn push(&mut self, index: &[Value<'_>], records: &[u8]) -> Result<(), Failure> {
        const ROWS_PER_PIECE: usize = 1 << 12;
        self.out.write(self.bits.of(records)).map_err(WriteError::Io)?;
        self.columns.push_row(index).map_err(Failure::error)?;
        if self.columns.row_count() >= ROWS_PER_PIECE {
            self.beside.write(&self.columns)?;
            self.columns.clear();
        }
        Ok(())
    }
}

impl Output {
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::File(file) => {
                file.finish()?;
            }
            Self::Stdout(mut file) => file.flush()?,
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(file) => file.flush(),
        }
    }
}
