//! What a run leaves behind that was killed, and what is saved of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use engine::columns::{Columns, Field, Kind, Schema, Value};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use sink::{Existing, Format, OutputFile, RecoverError, Writer, recover};

const SCHEMA: Schema = &[
    Field::new("number", Kind::U64, ""),
    Field::new("odd", Kind::U16, "").nullable(),
    Field::new("text", Kind::Text, ""),
];

/// Rows that the child writes between two flushes.
const STEP_ROWS: u64 = 500;

/// What asks a child for its work: the format, and the folder.
const CHILD: &str = "WIRELENS_RECOVER_CHILD";

fn rows(range: std::ops::Range<u64>) -> Columns {
    let mut rows = Columns::new(SCHEMA);
    for number in range {
        let odd = (number % 2 == 1).then_some(Value::U16(number as u16));
        // Line ends inside of values, so that not each line end ends a row of CSV.
        let text = format!("PAR1, \"{number}\"\nWLRG");
        rows.push_row(&[Value::U64(number), odd.into(), Value::Str(&text)]).unwrap();
    }
    rows
}

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recover-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// The first column of a file that somebody else reads as well.
fn numbers(format: Format, path: &Path) -> Vec<u64> {
    let file = File::open(path).unwrap();
    match format {
        Format::Csv => {
            let text = fs::read_to_string(path).unwrap();
            assert!(text.starts_with("number,odd,text\n") && text.ends_with("WLRG\"\n"));
            let lines = text.lines().skip(1).step_by(2);
            lines.map(|line| line.split(',').next().unwrap().parse().unwrap()).collect()
        }
        Format::Jsonl => {
            let text = fs::read_to_string(path).unwrap();
            assert!(text.ends_with("}\n"));
            let number = |line: &str| line[10..].split(',').next().unwrap().parse().unwrap();
            text.lines().map(number).collect()
        }
        Format::Parquet => {
            let reader = SerializedFileReader::new(file).unwrap();
            let rows = reader.get_row_iter(None).unwrap();
            rows.map(|row| row.unwrap().get_ulong(0).unwrap()).collect()
        }
        Format::Arrow => {
            let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
            let batches = reader.map(Result::unwrap);
            batches
                .flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec())
                .collect()
        }
    }
}

/// Not a test of its own: what the child of the next one does, until it is killed.
#[test]
fn child() {
    let Ok(asked) = env::var(CHILD) else { return };
    let (format, folder) = asked.split_once(' ').unwrap();
    let path = Path::new(folder).join("rows.out");
    let file = OutputFile::create(&path, Existing::Refuse).unwrap();
    let mut writer = Writer::to_file(format.parse().unwrap(), SCHEMA, file).unwrap();
    let mut told = File::create(Path::new(folder).join("told")).unwrap();
    for step in 0.. {
        writer.write(&rows(step * STEP_ROWS..(step + 1) * STEP_ROWS)).unwrap();
        writer.flush_held().unwrap();
        told.write_all(b".").unwrap();
    }
}

#[test]
fn a_killed_run_loses_nothing_that_was_flushed() {
    let folder = folder("killed");
    for (run, format) in (0..24).zip(Format::ALL.into_iter().cycle()) {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, format!("{format} {}", folder.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let told = folder.join("told");
        while fs::metadata(&told).map_or(0, |metadata| metadata.len()) == 0 {
            assert!(child.try_wait().unwrap().is_none(), "the child left");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_micros(run * run * 331 % 40_000));
        child.kill().unwrap();
        child.wait().unwrap();

        let (partial, target) = (folder.join("rows.out.partial"), folder.join("rows.out"));
        let flushed = fs::metadata(&told).unwrap().len() * STEP_ROWS;
        let recovered = recover(&partial, &target, Existing::Refuse).unwrap();
        assert_eq!(recovered.format, format);
        assert!(recovered.row_count >= flushed, "{format}: {recovered:?} of {flushed}");
        let numbers = numbers(format, &target);
        assert!(numbers.iter().copied().eq(0..recovered.row_count), "{format}");
        assert!(partial.exists(), "the source stays");
        for name in ["rows.out", "rows.out.partial", "told"] {
            fs::remove_file(folder.join(name)).unwrap();
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Bytes that can be looked at while they are being written.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An output that was never finished, and its length after each flush.
fn unfinished(format: Format, row_counts: &[u64]) -> (Vec<u8>, Vec<usize>) {
    let shared = Shared::default();
    let mut writer = Writer::new(format, SCHEMA, shared.clone()).unwrap();
    let (mut first, mut lens) = (0, Vec::new());
    for row_count in row_counts {
        writer.write(&rows(first..first + row_count)).unwrap();
        writer.flush_held().unwrap();
        first += row_count;
        lens.push(shared.0.lock().unwrap().len());
    }
    let bytes = shared.0.lock().unwrap().clone();
    (bytes, lens)
}

#[test]
fn a_file_cut_anywhere_keeps_what_was_flushed_before() {
    let folder = folder("cut");
    let (partial, target) = (folder.join("rows.out.partial"), folder.join("rows.out"));
    let row_counts = [3, 1, 4, 1, 5];
    for format in Format::ALL {
        let (bytes, lens) = unfinished(format, &row_counts);
        let ends = lens.iter().flat_map(|len| len - 2..=bytes.len().min(len + 2));
        for cut in (0..bytes.len()).step_by(13).chain(ends) {
            fs::write(&partial, &bytes[..cut]).unwrap();
            let flushes = lens.iter().filter(|&&len| len <= cut).count();
            let flushed: u64 = row_counts[..flushes].iter().sum();
            match recover(&partial, &target, Existing::Replace) {
                Ok(recovered) => {
                    // Text may hold complete lines of a write that was torn.
                    let kept = recovered.row_count;
                    assert!(
                        kept == flushed || format.is_text() && kept > flushed,
                        "{format} {cut}"
                    );
                    assert!(numbers(format, &target).into_iter().eq(0..kept), "{format} {cut}");
                    fs::remove_file(&target).unwrap();
                }
                Err(RecoverError::NoRows(_)) => assert_eq!(flushed, 0, "{format} {cut}"),
                Err(error) => panic!("{format} {cut}: {error}"),
            }
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "only the source is left");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_growing_parquet_file_is_readable_as_it_is() {
    let path = folder("growing").join("rows.parquet.partial");
    let shared = Shared::default();
    let mut writer = Writer::new(Format::Parquet, SCHEMA, shared.clone()).unwrap();
    writer.write(&rows(0..300_000)).unwrap();
    fs::write(&path, &*shared.0.lock().unwrap()).unwrap();
    assert_eq!(numbers(Format::Parquet, &path).len(), 2 * 131_072, "the full row groups");
    // A small group is only noted, and no reader takes it for the whole file.
    writer.flush_held().unwrap();
    writer.write(&rows(0..2)).unwrap();
    writer.flush_held().unwrap();
    fs::write(&path, &*shared.0.lock().unwrap()).unwrap();
    assert!(SerializedFileReader::new(File::open(&path).unwrap()).is_err());
    let dead_len = shared.0.lock().unwrap().len();
    writer.finish().unwrap();
    fs::write(&path, &*shared.0.lock().unwrap()).unwrap();
    assert_eq!(numbers(Format::Parquet, &path).len(), 300_002);
    assert!(dead_len < shared.0.lock().unwrap().len());
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn notes_and_footers_stay_a_small_part() {
    let groups = [5_000; 40];
    let finished = |bytes: Vec<u8>| bytes.len();
    let noted = finished(unfinished(Format::Parquet, &groups).0);
    let mut writer = Writer::new(Format::Parquet, SCHEMA, Vec::new()).unwrap();
    writer.write(&rows(0..200_000)).unwrap();
    let plain = finished(writer.finish().unwrap());
    assert!(noted < plain + plain / 4, "{noted} bytes, {plain} in large row groups");
}

#[test]
fn what_cannot_be_recovered_is_said_and_left_alone() {
    let folder = folder("refused");
    let (partial, target) = (folder.join("rows.csv.partial"), folder.join("rows.csv"));
    let text = recover(&partial, &target, Existing::Refuse).unwrap_err().to_string();
    assert!(text.starts_with("cannot read `"), "{text}");
    fs::write(&partial, "a,b\n1,").unwrap();
    let text = recover(&partial, &target, Existing::Refuse).unwrap_err().to_string();
    assert!(text.ends_with("has no complete row, so there is nothing to recover; remove it"));
    fs::write(&partial, "a,b\n1,2\n3").unwrap();
    let wrong = folder.join("rows.parquet");
    let text = recover(&partial, &wrong, Existing::Refuse).unwrap_err().to_string();
    assert!(text.ends_with("stays csv; give a name with the suffix .csv"), "{text}");
    fs::write(&target, "mine").unwrap();
    let text = recover(&partial, &target, Existing::Refuse).unwrap_err().to_string();
    assert!(text.contains("exists already; give --force"), "{text}");
    assert_eq!(fs::read(&target).unwrap(), b"mine");
    recover(&partial, &target, Existing::Replace).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"a,b\n1,2\n");
    assert_eq!(fs::read(&partial).unwrap(), b"a,b\n1,2\n3");
    fs::remove_dir_all(&folder).unwrap();
}

/// Whatever a damaged file says of its lengths, recovering ends with rows or with an error.
fn each_word_of_a_damaged_file(format: Format) {
    let folder = folder(&format!("damaged-{}", format.name()));
    let whole = folder.join("whole");
    let mut writer =
        Writer::new(format, SCHEMA, OutputFile::create(&whole, Existing::Replace).unwrap())
            .unwrap();
    writer.write(&rows(0..20)).unwrap();
    writer.flush_held().unwrap();
    writer.write(&rows(20..40)).unwrap();
    writer.flush_held().unwrap();
    // Dropped with the writer, the file would go.
    let partial = folder.join("whole.partial");
    let bytes = fs::read(&partial).unwrap();
    drop(writer);
    let (damaged, saved) = (folder.join("damaged"), folder.join("saved"));
    let suffix = format.suffixes().first().copied().unwrap_or("txt");
    let saved = saved.with_extension(suffix);
    fs::write(&damaged, &bytes).unwrap();
    assert_eq!(recover(&damaged, &saved, Existing::Replace).unwrap().row_count, 40);
    for at in (0..bytes.len()).step_by(4) {
        let extremes: [&[u8]; 5] =
            [&[0xff; 8], &[0xff, 0xff, 0xff, 0x7f], &[0; 4], &[bytes[at] ^ 0x80], &[bytes[at] ^ 2]];
        for value in extremes {
            let mut wrong = bytes.clone();
            for (to, from) in wrong[at..].iter_mut().zip(value) {
                *to = *from;
            }
            fs::write(&damaged, &wrong).unwrap();
            match recover(&damaged, &saved, Existing::Replace) {
                Ok(done) => assert!(done.cut_bytes <= bytes.len() as u64, "{at}: {done:?}"),
                Err(RecoverError::Output(error)) => panic!("{at}: {error}"),
                Err(_) => {}
            }
        }
    }
}

#[test]
fn a_damaged_arrow_file_gives_the_rows_before_the_damage_or_an_error() {
    each_word_of_a_damaged_file(Format::Arrow);
}

#[test]
fn a_damaged_parquet_file_does_too() {
    each_word_of_a_damaged_file(Format::Parquet);
}

#[test]
fn lines_of_a_zeek_log_have_no_quotes_and_its_header_is_no_row() {
    let folder = folder("zeek");
    let (partial, target) = (folder.join("ssl.log.partial"), folder.join("ssl.log"));
    let head = "#separator \\x09\n#path\tssl\n#fields\tts\tserver_name\n#types\ttime\tstring\n";
    // What a client sends as a server's name may be a quotation mark.
    let lines = "1.0\ta\"b\n2.0\tc\n";
    fs::write(&partial, format!("{head}{lines}3.0\ttorn")).unwrap();
    let saved = recover(&partial, &target, Existing::Refuse).unwrap();
    assert_eq!((saved.row_count, saved.cut_bytes), (2, 8));
    assert_eq!(fs::read_to_string(&target).unwrap(), format!("{head}{lines}"));
    fs::write(&partial, head).unwrap();
    let error = recover(&partial, &target, Existing::Replace).unwrap_err();
    assert!(matches!(error, RecoverError::NoRows(_)), "{error}");
    fs::remove_dir_all(&folder).unwrap();
}
