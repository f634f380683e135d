//! Output files are whole or absent, whatever is in their way.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use sink::{Existing, Format, OutputError, OutputFile, WriteError, Writer};

const SCHEMA: Schema = &[Field::new("packet_count", Kind::U64, "")];

/// An empty folder, removed again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sink-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn create(path: &Path) -> Result<OutputFile, OutputError> {
    OutputFile::create(path, Existing::Refuse)
}

fn replace(path: &Path) -> Result<OutputFile, OutputError> {
    OutputFile::create(path, Existing::Replace)
}

fn fill(mut file: OutputFile, text: &str) -> Result<u64, OutputError> {
    file.write_all(text.as_bytes()).unwrap();
    file.finish()
}

#[test]
fn the_name_comes_last() {
    let folder = Folder::new("last");
    let path = folder.join("flows.csv");
    let mut rows = Columns::new(SCHEMA);
    rows.push_row(&[Value::U64(7)]).unwrap();
    let mut writer = Writer::to_file(Format::Csv, SCHEMA, create(&path).unwrap()).unwrap();
    writer.write(&rows).unwrap();
    assert_eq!(folder.names(), ["flows.csv.partial"]);
    assert_eq!(writer.finish().unwrap().finish().unwrap(), 15);
    assert_eq!(folder.names(), ["flows.csv"]);
    assert_eq!(fs::read(&path).unwrap(), b"packet_count\n7\n");
}

#[test]
fn dropped_unfinished_leaves_nothing() {
    let folder = Folder::new("dropped");
    for format in Format::ALL {
        let file = create(&folder.join("flows.out")).unwrap();
        let writer = Writer::to_file(format, SCHEMA, file).unwrap();
        assert_eq!(folder.names(), ["flows.out.partial"]);
        drop(writer);
        assert_eq!(folder.names(), [""; 0]);
    }
}

#[test]
fn an_existing_file_is_kept_unless_forced() {
    let folder = Folder::new("existing");
    let path = folder.join("flows.csv");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let text = create(&path).unwrap_err().to_string();
    assert_eq!(
        text,
        format!("`{}` exists already; give --force to replace it, or another name", path.display())
    );

    let file = replace(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old", "kept until the new one is complete");
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"old", "kept where the new one is not completed");

    fill(replace(&path).unwrap(), "new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.names(), ["flows.csv"]);
}

#[test]
fn a_file_that_appears_meanwhile_is_kept() {
    let folder = Folder::new("appears");
    let path = folder.join("flows.csv");
    let file = create(&path).unwrap();
    fs::write(&path, "theirs").unwrap();
    let error = fill(file, "ours").unwrap_err();
    assert!(matches!(error, OutputError::Appeared { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    assert_eq!(fs::read(folder.join("flows.csv.partial")).unwrap(), b"ours");
}

#[test]
fn what_a_killed_run_left_is_replaced() {
    let folder = Folder::new("killed");
    let path = folder.join("flows.csv");
    fs::write(folder.join("flows.csv.partial"), "left behind, and longer").unwrap();
    fill(create(&path).unwrap(), "new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");

    // Killed between giving the name and taking the other away: one file, two names.
    fs::hard_link(&path, folder.join("flows.csv.partial")).unwrap();
    let file = replace(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new", "the finished file is not the one emptied");
    fill(file, "newer").unwrap();
    assert_eq!(folder.names(), ["flows.csv"]);
}

#[test]
fn two_runs_do_not_share_a_file() {
    let folder = Folder::new("two");
    let path = folder.join("flows.csv");
    let first = create(&path).unwrap();
    for second in [create(&path), replace(&path)] {
        assert!(matches!(second, Err(OutputError::Busy { .. })));
    }
    fill(first, "first").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first");
}

#[test]
fn a_link_is_refused_and_never_followed() {
    let folder = Folder::new("link");
    let far = folder.join("far.csv");
    fs::write(&far, "precious").unwrap();
    // To a file, to nothing, to a device, to itself.
    for (name, leads_to) in [
        ("near.csv", "far.csv"),
        ("lost.csv", "none"),
        ("full.csv", "/dev/full"),
        ("o.csv", "o.csv"),
    ] {
        let path = folder.join(name);
        symlink(leads_to, &path).unwrap();
        for opened in [create(&path), replace(&path)] {
            let said = opened.unwrap_err().to_string();
            let wanted = format!("is a symbolic link to `{leads_to}`");
            assert!(said.contains(&wanted) && said.contains("remove the link"), "{said}");
        }
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink(), "{name}");
    }
    assert_eq!(fs::read(&far).unwrap(), b"precious");
    assert!(!folder.join("none").exists());
    // A folder on the way may be a link: that is where the user asks for the file to be.
    fs::create_dir(folder.join("real")).unwrap();
    symlink("real", folder.join("alias")).unwrap();
    fill(create(&folder.join("alias/flows.csv")).unwrap(), "3").unwrap();
    assert_eq!(fs::read(folder.join("real/flows.csv")).unwrap(), b"3");
}

#[test]
fn what_is_no_file_is_refused_with_a_reason() {
    let folder = Folder::new("reason");
    let text = create(&folder.0).unwrap_err().to_string();
    assert!(text.contains("is a folder"), "{text}");
    let text = create(&folder.join("new/")).unwrap_err().to_string();
    assert!(text.contains("is a folder"), "{text}");
    let text = create(&folder.join("none/flows.csv")).unwrap_err().to_string();
    assert!(
        text.contains("there is no folder `") && text.ends_with("create it first (mkdir -p)"),
        "{text}"
    );
    fs::write(folder.join("file"), "").unwrap();
    let error = create(&folder.join("file/flows.csv")).unwrap_err();
    assert!(matches!(error, OutputError::NoFolder { .. }), "{error}");
    let error = create(Path::new("")).unwrap_err();
    assert!(matches!(error, OutputError::Create { .. }), "{error}");

    symlink("elsewhere", folder.join("flows.csv.partial")).unwrap();
    let error = create(&folder.join("flows.csv")).unwrap_err();
    assert!(matches!(error, OutputError::PartialNotOurs(_)), "{error}");
    assert_eq!(folder.names(), ["file", "flows.csv.partial"]);
}

#[test]
fn no_permission_is_said() {
    // Nobody creates files in this one, root included.
    let path = Path::new("/sys/kernel/flows.csv");
    if !Path::new("/sys/kernel").is_dir() {
        eprintln!("skipped: /sys is not mounted");
        return;
    }
    let error = create(path).unwrap_err();
    assert!(matches!(error, OutputError::Create { .. }), "{error:?}");
    assert!(error.to_string().contains("choose a folder that you may write to"), "{error}");
}

#[test]
fn a_full_device_is_said_in_every_format() {
    for format in Format::ALL {
        let mut rows = Columns::new(SCHEMA);
        rows.push_row(&[Value::U64(7)]).unwrap();
        let file = create(Path::new("/dev/full")).unwrap();
        let outcome = Writer::to_file(format, SCHEMA, file).and_then(|mut writer| {
            writer.write(&rows)?;
            writer.finish()
        });
        let Err(error) = outcome else { panic!("{format} did not notice") };
        assert!(matches!(error, WriteError::Io(_)), "{format}: {error:?}");
        let text = error.to_string();
        assert!(
            text.starts_with("cannot write `/dev/full`: No space left on device"),
            "{format}: {text}"
        );
        assert!(text.contains("after 0 bytes"), "{format}: {text}");
    }
    assert!(!Path::new("/dev/full.partial").exists());
}

#[test]
fn nothing_is_written_after_a_failure() {
    let mut writer =
        Writer::new(Format::Csv, SCHEMA, File::options().write(true).open("/dev/full").unwrap())
            .unwrap();
    let mut rows = Columns::new(SCHEMA);
    for count in 0..100_000 {
        rows.push_row(&[Value::U64(count)]).unwrap();
    }
    assert!(matches!(writer.write(&rows), Err(WriteError::Io(_))));
    assert!(matches!(writer.write(&rows), Err(WriteError::AfterFailure)));
    assert!(matches!(writer.finish(), Err(WriteError::AfterFailure)));
}

#[test]
fn a_pipe_gets_each_row_at_once() {
    let folder = Folder::new("pipe");
    let path = folder.join("flows.jsonl");
    if !Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfifo command");
        return;
    }
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut first = [0; 19];
            File::open(path).unwrap().read_exact(&mut first).unwrap();
            first
        }
    });
    let file = create(&path).unwrap();
    assert!(file.is_stream());
    let mut writer = Writer::to_file(Format::Jsonl, SCHEMA, file).unwrap();
    let mut rows = Columns::new(SCHEMA);
    rows.push_row(&[Value::U64(7)]).unwrap();
    writer.write(&rows).unwrap();
    assert_eq!(&reader.join().unwrap(), b"{\"packet_count\":7}\n");
    // The reader went away.
    let error = writer.write(&rows).unwrap_err();
    assert!(error.is_broken_pipe(), "{error}");
    assert_eq!(folder.names(), ["flows.jsonl"], "no partial file beside a pipe");
}

#[test]
fn devices_are_written_straight() {
    let file = create(Path::new("/dev/null")).unwrap();
    assert!(file.is_stream());
    assert_eq!(fill(file, "gone").unwrap(), 4);
    let file = create(Path::new("/dev/stdout")).unwrap();
    assert!(file.is_stream());
    assert_eq!(file.finish().unwrap(), 0);
}

fn row(count: u64) -> Columns {
    let mut rows = Columns::new(SCHEMA);
    rows.push_row(&[Value::U64(count)]).unwrap();
    rows
}

#[test]
fn reopened_pieces_never_replace_each_other() {
    for (existing, before) in [(Existing::Refuse, false), (Existing::Replace, true)] {
        let folder = Folder::new("pieces");
        let path = folder.join("flows.csv");
        if before {
            fs::write(&path, "what --force replaces").unwrap();
        }
        let file = OutputFile::create(&path, existing).unwrap();
        let mut writer = Writer::to_file(Format::Csv, SCHEMA, file).unwrap();
        let mut names = Vec::new();
        for count in 0..3 {
            writer.write(&row(count)).unwrap();
            let (next, piece) = writer.reopen().unwrap();
            let piece = piece.expect("a file has pieces");
            assert_eq!(piece.size_bytes, 15);
            names.extend(piece.path);
            writer = next;
            assert!(folder.names().contains(&"flows.csv.partial".to_owned()), "it goes on");
        }
        // The first piece is moved away, as log rotation does, and so its name is free.
        fs::rename(&path, folder.join("flows.csv.1")).unwrap();
        writer.write(&row(3)).unwrap();
        writer.finish().unwrap().finish().unwrap();
        let wanted = ["flows.csv", "flows-1.csv", "flows-2.csv"].map(|name| folder.join(name));
        assert_eq!(names, wanted);
        for (count, name) in
            ["flows.csv.1", "flows-1.csv", "flows-2.csv", "flows.csv"].iter().enumerate()
        {
            let text = fs::read_to_string(folder.join(name)).unwrap();
            assert_eq!(text, format!("packet_count\n{count}\n"), "{name}");
        }
        assert_eq!(folder.names().len(), 4, "nothing else");
    }
}

#[test]
fn a_growing_file_that_was_renamed_is_finished_where_it_is() {
    let folder = Folder::new("rotated");
    let path = folder.join("flows.csv");
    for format in Format::ALL {
        let mut writer = Writer::to_file(format, SCHEMA, replace(&path).unwrap()).unwrap();
        writer.write(&row(7)).unwrap();
        fs::rename(folder.join("flows.csv.partial"), folder.join("rotated")).unwrap();
        let (mut next, piece) = writer.reopen().unwrap();
        assert_eq!(piece.unwrap().path, None, "only who renamed it knows its name");
        next.write(&row(7)).unwrap();
        next.finish().unwrap().finish().unwrap();
        let [rotated, after] = [folder.join("rotated"), path.clone()].map(fs::read);
        assert_eq!(rotated.unwrap(), after.unwrap(), "{format}: both are whole");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_device_is_not_reopened() {
    let file = create(Path::new("/dev/null")).unwrap();
    let mut writer = Writer::to_file(Format::Parquet, SCHEMA, file).unwrap();
    writer.write(&row(7)).unwrap();
    let (writer, piece) = writer.reopen().unwrap();
    assert_eq!(piece, None);
    writer.finish().unwrap();
}

#[test]
fn a_file_that_was_removed_while_it_grew_is_not_called_complete() {
    let folder = Folder::new("vanished");
    let path = folder.join("far/flows.csv");
    fs::create_dir(folder.join("far")).unwrap();
    for existing in [Existing::Refuse, Existing::Replace] {
        let _ = fs::create_dir(folder.join("far"));
        let mut file = OutputFile::create(&path, existing).unwrap();
        file.write_all(b"rows").unwrap();
        fs::remove_dir_all(folder.join("far")).unwrap();
        let error = file.finish().unwrap_err();
        assert!(matches!(error, OutputError::Vanished { written_bytes: 4, .. }), "{error}");
    }
}

#[test]
fn new_files_and_their_pieces_are_their_owners_and_a_replaced_one_keeps_its_mode() {
    let folder = Folder::new("mode");
    let mode = |name: &str| folder.join(name).metadata().unwrap().permissions().mode() & 0o777;
    let path = folder.join("flows.csv");
    let file = create(&path).unwrap();
    assert_eq!(mode("flows.csv.partial"), 0o600);
    let (file, _) = file.reopen().unwrap();
    assert_eq!(mode("flows.csv.partial"), 0o600);
    fill(file, "2").unwrap();
    assert_eq!((mode("flows.csv"), mode("flows-1.csv")), (0o600, 0o600));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fill(replace(&path).unwrap(), "3").unwrap();
    assert_eq!(mode("flows.csv"), 0o644);
}
