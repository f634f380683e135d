//! What is asked for by a name: a column, or what several columns are together.

use engine::columns::{Columns, Schema};

use super::cell::{Cell, cell};
use super::filter::QueryError;

/// Names for several columns of which any may be meant.
const ANY_OF: [(&str, &[&str]); 2] =
    [("ip", &["src_ip", "dst_ip", "host"]), ("port", &["src_port", "dst_port"])];

/// Names for the sum of several columns.
const SUM_OF: [(&str, &[&str]); 2] =
    [("bytes", &["src_bytes", "dst_bytes"]), ("packets", &["src_packets", "dst_packets"])];

/// How like a name has to be to be proposed, of 1.
const LIKE_MIN: f64 = 0.75;

/// What a name stands for.
pub(super) enum Operand {
    /// One value of a row.
    Measure(Measure),
    /// Several values of a row.
    AnyOf(Vec<usize>),
}

/// One value of a row: that of a column, or the sum of some.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measure {
    name: String,
    columns: Vec<usize>,
}

impl Operand {
    pub(super) fn find(schema: Schema, name: &str) -> Result<Self, QueryError> {
        let place = |name: &str| schema.iter().position(|field| field.name == name);
        if let Some(measure) = Measure::of(schema, name) {
            return Ok(Self::Measure(measure));
        }
        let any = ANY_OF.iter().find(|(alias, _)| *alias == name);
        let columns: Vec<_> =
            any.into_iter().flat_map(|(_, names)| *names).filter_map(|name| place(name)).collect();
        if columns.is_empty() {
            return Err(unknown(schema, name));
        }
        Ok(Self::AnyOf(columns))
    }
}

impl Measure {
    fn of(schema: Schema, name: &str) -> Option<Self> {
        let place = |name: &str| schema.iter().position(|field| field.name == name);
        if let Some(column) = place(name) {
            return Some(Self { name: name.to_owned(), columns: vec![column] });
        }
        let (_, names) = SUM_OF.iter().find(|(alias, _)| *alias == name)?;
        let columns: Option<Vec<_>> = names.iter().map(|name| place(name)).collect();
        Some(Self { name: name.to_owned(), columns: columns? })
    }

    /// The measure of a name.
    ///
    /// # Errors
    /// [`QueryError`] names columns that there are.
    pub fn find(schema: Schema, name: &str) -> Result<Self, QueryError> {
        Self::of(schema, name).ok_or_else(|| unknown(schema, name))
    }

    /// The one of a column.
    #[must_use]
    pub fn column(schema: Schema, column: usize) -> Self {
        let name = schema.get(column).map_or("", |field| field.name).to_owned();
        Self { name, columns: vec![column] }
    }

    /// Measures by their names, with commas between them.
    ///
    /// # Errors
    /// [`QueryError`] names columns that there are.
    pub fn list(schema: Schema, text: &str) -> Result<Vec<Self>, QueryError> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(|name| Self::find(schema, name)).collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns that it is of.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The value of a row. Of a sum all parts have to be there.
    #[must_use]
    pub fn cell<'a>(&self, rows: &'a Columns, row: usize) -> Cell<'a> {
        if let [column] = self.columns[..] {
            return cell(rows, column, row);
        }
        let parts = self.columns.iter().map(|&column| match cell(rows, column, row) {
            Cell::Integer(value) => Some(value),
            _ => None,
        });
        parts.sum::<Option<i128>>().map_or(Cell::Null, Cell::Integer)
    }
}

/// What a query says of a name that no column has: the most alike first.
fn unknown(schema: Schema, name: &str) -> QueryError {
    let columns = schema.iter().map(|field| field.name);
    let aliases = ANY_OF.iter().chain(&SUM_OF).filter(|(_, names)| {
        names.iter().any(|name| schema.iter().any(|field| field.name == *name))
    });
    let mut names: Vec<_> = columns.chain(aliases.map(|(alias, _)| *alias)).collect();
    let alike = |other: &str| strsim::jaro_winkler(name, other);
    names.sort_by(|one, other| alike(other).total_cmp(&alike(one)));
    let best = names.first().filter(|best| alike(best) >= LIKE_MIN);
    QueryError(match best {
        Some(best) => format!("no column {name:?}; try {best:?}"),
        None => format!("no column {name:?}; the table has: {}", names.join(", ")),
    })
}
