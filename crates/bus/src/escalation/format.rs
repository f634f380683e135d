//! The bytes of escalations and answers, little-endian.

use std::fmt;
use std::time::Duration;

use super::VERSION;

/// Bytes before the first row.
pub(super) const HEAD_LEN: usize = 8;

/// Bytes before the records of a row.
pub(super) const ROW_HEAD_LEN: usize = 8;

/// Bytes of a number.
const NUMBER_LEN: usize = size_of::<f32>();

/// Bytes of evidence: classes by kind.
const EVIDENCE_LEN: usize = 5 * 8;

/// Bytes of an answer to a row.
const ANSWER_LEN: usize = 20;

/// Rows of a message at most.
pub(super) const ROWS_MAX: usize = 256;

/// Records of a row have so many bytes at most.
const RECORDS_LEN_MAX: usize = 1 << 16;

/// Numbers of a row at most.
const NUMBERS_MAX: usize = 1 << 12;

const HAS_EVIDENCE: u8 = 1;
const IS_UNLISTED: u8 = 2;

/// What names say of a flow: by kind of evidence a bit for each class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// By kind.
    pub classes: [u64; 5],
    /// Whether the protocol is in no line of the list.
    pub is_unlisted: bool,
}

/// What a stage looks at of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RowFields<'a> {
    /// The stage, by its index in the cascade.
    pub stage: u8,
    /// Compact records of packets, end to end.
    pub records: &'a [u8],
    /// Numbers that are not read from records, four bytes each as [`f32::to_le_bytes`] gives them.
    pub numbers: &'a [u8],
    /// What names say, where the stage takes them for evidence.
    pub evidence: Option<Evidence>,
}

/// What a stage says of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RowAnswer {
    /// The likeliest class.
    pub label: u16,
    /// The likeliest class that names something.
    pub guess: u16,
    /// The calibrated probability of the guess.
    pub confidence: f64,
    /// The uncertainty, as the stage measures it.
    pub uncertainty: f64,
}

impl RowAnswer {
    /// Whether a model with so many classes can have said it. Uncertainty without end is one of a
    /// network whose probabilities are no numbers, which the sensor itself would have said as well.
    pub(super) fn is_of(&self, class_count: usize) -> bool {
        let Self { label, guess, confidence, uncertainty } = *self;
        usize::from(label.max(guess)) < class_count
            && (0.0..=1.0).contains(&confidence)
            && !uncertainty.is_nan()
    }
}

/// Why a message is none of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FormatError {
    /// Another version of the format.
    Version(u8),
    /// It ends before it should, or after.
    Length,
    /// A count beyond its limit.
    Limit,
    /// No such status.
    Status(u8),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(seen) => write!(f, "version {seen}, wanted {VERSION}"),
            Self::Length => f.write_str("cut, or longer than it says"),
            Self::Limit => write!(f, "more than {ROWS_MAX} rows, or rows that are too long"),
            Self::Status(seen) => write!(f, "status {seen}, wanted 0 to 3"),
        }
    }
}

/// The outcome of an escalation at a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Status {
    /// Rows are answered.
    Answered,
    /// Rows are none of the model's.
    Refused,
    /// The time to live was over when a model was free.
    Late,
    /// Too many wait already.
    Busy,
}

/// Bytes of a message that grows row by row.
#[derive(Debug)]
pub(super) struct EscalationBytes {
    bytes: Vec<u8>,
    count: u16,
}

impl EscalationBytes {
    /// In the place of these bytes: messages of one sensor are of a length, and a list that grows
    /// to it is copied each time that it doubles.
    pub(super) fn new(time_to_live: Duration, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.extend_from_slice(&[VERSION, 0, 0, 0]);
        bytes.extend_from_slice(&micros(time_to_live).to_le_bytes());
        Self { bytes, count: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a row; false where it is too long for any message.
    pub(super) fn push(
        &mut self,
        stage: u8,
        records: &[u8],
        numbers: &[f32],
        evidence: Option<Evidence>,
    ) -> bool {
        let records_len = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let Ok(number_count) = u16::try_from(numbers.len()) else { return false };
        if records.len() > RECORDS_LEN_MAX || numbers.len() > NUMBERS_MAX {
            return false;
        }
        let flags = evidence.map_or(0, |evidence| {
            HAS_EVIDENCE | if evidence.is_unlisted { IS_UNLISTED } else { 0 }
        });
        self.bytes.extend_from_slice(&records_len.to_le_bytes());
        self.bytes.extend_from_slice(&number_count.to_le_bytes());
        self.bytes.extend_from_slice(&[stage, flags]);
        self.bytes.extend_from_slice(records);
        let at = self.bytes.len();
        self.bytes.resize(at + NUMBER_LEN * numbers.len(), 0);
        let (places, _) = self.bytes.get_mut(at..).unwrap_or_default().as_chunks_mut();
        for (place, number) in places.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        for classes in evidence.iter().flat_map(|evidence| evidence.classes) {
            self.bytes.extend_from_slice(&classes.to_le_bytes());
        }
        self.count += 1;
        if let Some(count) = self.bytes.get_mut(2..4) {
            count.copy_from_slice(&self.count.to_le_bytes());
        }
        true
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Bytes of a row in a message.
pub(super) const fn row_len(records: &[u8], numbers: &[f32], evidence: Option<Evidence>) -> usize {
    let evidence_len = if evidence.is_some() { EVIDENCE_LEN } else { 0 };
    ROW_HEAD_LEN + records.len() + NUMBER_LEN * numbers.len() + evidence_len
}

/// The same escalation with another time to live.
pub(super) fn with_time_to_live(bytes: &[u8], time_to_live: Duration) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(place) = bytes.get_mut(4..HEAD_LEN) {
        place.copy_from_slice(&micros(time_to_live).to_le_bytes());
    }
    bytes
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Takes so many bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], FormatError> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or(FormatError::Length)?;
    *bytes = rest;
    Ok(taken)
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], FormatError> {
    take(bytes, N)?.try_into().map_err(|_| FormatError::Length)
}

fn take_u16(bytes: &mut &[u8]) -> Result<u16, FormatError> {
    take_array(bytes).map(u16::from_le_bytes)
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32, FormatError> {
    take_array(bytes).map(u32::from_le_bytes)
}

/// Version, second byte and count of either message.
fn take_head(bytes: &mut &[u8]) -> Result<(u8, u16, u32), FormatError> {
    let [version, second] = take_array(bytes)?;
    if version != VERSION {
        return Err(FormatError::Version(version));
    }
    let count = take_u16(bytes)?;
    if usize::from(count) > ROWS_MAX {
        return Err(FormatError::Limit);
    }
    Ok((second, count, take_u32(bytes)?))
}

/// The rows of an escalation, and how long they may take; nothing where its head is none.
pub(super) fn size(mut bytes: &[u8]) -> Option<(usize, Duration)> {
    let (_, count, micros) = take_head(&mut bytes).ok()?;
    Some((count.into(), Duration::from_micros(micros.into())))
}

/// The rows of an escalation, all of them checked, and its time to live.
pub(super) fn read_rows<'a>(
    mut bytes: &'a [u8],
    rows: &mut Vec<RowFields<'a>>,
) -> Result<Duration, FormatError> {
    let (_, count, micros) = take_head(&mut bytes)?;
    for _ in 0..count {
        rows.push(read_row(&mut bytes)?);
    }
    if !bytes.is_empty() {
        return Err(FormatError::Length);
    }
    Ok(Duration::from_micros(micros.into()))
}

fn read_row<'a>(bytes: &mut &'a [u8]) -> Result<RowFields<'a>, FormatError> {
    let mut head = take(bytes, ROW_HEAD_LEN)?;
    let records_len = usize::try_from(take_u32(&mut head)?).unwrap_or(usize::MAX);
    let number_count = usize::from(take_u16(&mut head)?);
    let [stage, flags] = take_array(&mut head)?;
    if records_len > RECORDS_LEN_MAX || number_count > NUMBERS_MAX {
        return Err(FormatError::Limit);
    }
    let records = take(bytes, records_len)?;
    let numbers = take(bytes, NUMBER_LEN * number_count)?;
    let evidence = if flags & HAS_EVIDENCE == 0 {
        None
    } else {
        let mut kinds = take(bytes, EVIDENCE_LEN)?;
        let mut classes = [0; 5];
        for kind in &mut classes {
            *kind = u64::from_le_bytes(take_array(&mut kinds)?);
        }
        Some(Evidence { classes, is_unlisted: flags & IS_UNLISTED != 0 })
    };
    Ok(RowFields { stage, records, numbers, evidence })
}

/// The bytes of an answer; `spent` is the time from its arrival to now.
pub(super) fn answer_bytes(status: Status, spent: Duration, answers: &[RowAnswer]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_LEN + answers.len() * ANSWER_LEN);
    bytes.extend_from_slice(&[VERSION, status as u8]);
    bytes.extend_from_slice(&u16::try_from(answers.len()).unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(&micros(spent).to_le_bytes());
    for answer in answers {
        bytes.extend_from_slice(&answer.label.to_le_bytes());
        bytes.extend_from_slice(&answer.guess.to_le_bytes());
        bytes.extend_from_slice(&answer.confidence.to_le_bytes());
        bytes.extend_from_slice(&answer.uncertainty.to_le_bytes());
    }
    bytes
}

/// An answer that was read.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    /// How long it was at the worker.
    pub(super) spent: Duration,
    pub(super) rows: Vec<RowAnswer>,
}

pub(super) fn read_answer(mut bytes: &[u8]) -> Result<Answer, FormatError> {
    let (status, count, micros) = take_head(&mut bytes)?;
    let status = match status {
        0 => Status::Answered,
        1 => Status::Refused,
        2 => Status::Late,
        3 => Status::Busy,
        other => return Err(FormatError::Status(other)),
    };
    if bytes.len() != usize::from(count) * ANSWER_LEN {
        return Err(FormatError::Length);
    }
    let mut rows = Vec::with_capacity(count.into());
    for _ in 0..count {
        rows.push(RowAnswer {
            label: take_u16(&mut bytes)?,
            guess: take_u16(&mut bytes)?,
            confidence: f64::from_le_bytes(take_array(&mut bytes)?),
            uncertainty: f64::from_le_bytes(take_array(&mut bytes)?),
        });
    }
    Ok(Answer { status, spent: Duration::from_micros(micros.into()), rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Vec<u8> {
        let mut bytes = EscalationBytes::new(Duration::from_millis(50), Vec::new());
        let evidence = Evidence { classes: [1, 0, 4, 0, 1 << 63], is_unlisted: true };
        assert!(bytes.push(1, &[7; 144], &[1.5], None));
        assert!(bytes.push(2, &[], &[], Some(evidence)));
        bytes.into_bytes()
    }

    /// Worked out by hand from the specification.
    #[test]
    fn an_escalation_is_as_specified() {
        let bytes = message();
        assert_eq!(bytes[..8], [2, 0, 2, 0, 0x50, 0xc3, 0, 0]);
        assert_eq!(bytes[8..16], [144, 0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(bytes[160..164], 1.5_f32.to_le_bytes());
        assert_eq!(bytes[164..172], [0, 0, 0, 0, 0, 0, 2, 3]);
        assert_eq!(bytes.len(), 172 + 40);
        let mut rows = Vec::new();
        assert_eq!(read_rows(&bytes, &mut rows), Ok(Duration::from_millis(50)));
        assert_eq!((rows.len(), rows[0].records.len(), rows[1].stage), (2, 144, 2));
        assert_eq!(rows[1].evidence.unwrap().classes[4], 1 << 63);
        assert!(rows[1].evidence.unwrap().is_unlisted && rows[0].evidence.is_none());
    }

    #[test]
    fn an_answer_is_as_specified() {
        let rows = [RowAnswer { label: 3, guess: 2, confidence: 0.75, uncertainty: 0.25 }];
        let bytes = answer_bytes(Status::Answered, Duration::from_micros(300), &rows);
        assert_eq!(bytes[..12], [2, 0, 1, 0, 44, 1, 0, 0, 3, 0, 2, 0]);
        let answer = read_answer(&bytes).unwrap();
        assert_eq!((answer.status, answer.rows), (Status::Answered, rows.to_vec()));
        assert_eq!(answer.spent, Duration::from_micros(300));
        assert_eq!(read_answer(&[2, 9, 0, 0, 0, 0, 0, 0]), Err(FormatError::Status(9)));
    }

    #[test]
    fn an_answer_that_no_model_gives_is_seen() {
        let row = RowAnswer { label: 2, guess: 1, confidence: 0.5, uncertainty: f64::INFINITY };
        assert!(row.is_of(3) && !row.is_of(2));
        assert!(!RowAnswer { guess: 3, ..row }.is_of(3));
        for confidence in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
            assert!(!RowAnswer { confidence, ..row }.is_of(3), "{confidence}");
        }
        assert!(!RowAnswer { uncertainty: f64::NAN, ..row }.is_of(3));
    }

    #[test]
    fn what_is_cut_longer_or_of_another_version_is_refused() {
        let whole = message();
        for len in 0..whole.len() {
            assert!(read_rows(&whole[..len], &mut Vec::new()).is_err(), "{len}");
        }
        let longer = [whole.clone(), vec![0]].concat();
        assert_eq!(read_rows(&longer, &mut Vec::new()), Err(FormatError::Length));
        let mut other = whole.clone();
        other[0] = 1;
        assert_eq!(read_rows(&other, &mut Vec::new()), Err(FormatError::Version(1)));
        let mut many = whole;
        many[3] = 2;
        assert_eq!(read_rows(&many, &mut Vec::new()), Err(FormatError::Limit));
        let answer = answer_bytes(Status::Late, Duration::ZERO, &[]);
        assert!((0..answer.len()).all(|len| read_answer(&answer[..len]).is_err()));
    }

    #[test]
    fn a_row_that_fits_no_message_is_not_taken() {
        let mut bytes = EscalationBytes::new(Duration::ZERO, Vec::new());
        assert!(!bytes.push(0, &vec![0; RECORDS_LEN_MAX + 1], &[], None));
        assert!(!bytes.push(0, &[], &vec![0.0; NUMBERS_MAX + 1], None));
        assert_eq!(
            bytes.into_bytes(),
            EscalationBytes::new(Duration::ZERO, Vec::new()).into_bytes()
        );
    }

    #[test]
    fn the_length_of_a_row_is_what_it_adds() {
        let mut bytes = EscalationBytes::new(Duration::ZERO, Vec::new());
        let evidence = Some(Evidence { classes: [0; 5], is_unlisted: false });
        let rows: [(&[u8], &[f32], Option<Evidence>); 3] =
            [(&[], &[], None), (&[1; 144], &[1.5, 2.5], evidence), (&[1; 3], &[], evidence)];
        for (records, numbers, evidence) in rows {
            let before = bytes.len();
            assert!(bytes.push(1, records, numbers, evidence));
            assert_eq!(bytes.len() - before, row_len(records, numbers, evidence));
        }
    }

    #[test]
    fn another_time_to_live_changes_nothing_else() {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let bytes = message();
        let other = with_time_to_live(&bytes, Duration::from_millis(7));
        assert_eq!(read_rows(&other, &mut after), Ok(Duration::from_millis(7)));
        assert_eq!(read_rows(&bytes, &mut before), Ok(Duration::from_millis(50)));
        assert_eq!(before, after);
    }
}
