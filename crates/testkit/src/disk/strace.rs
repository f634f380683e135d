//! Lines of strace become operations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Operation;

/// The calls that are traced.
pub(super) const CALLS: &str = "trace=openat,write,pwrite64,writev,lseek,ftruncate,rename,renameat,\
renameat2,unlink,unlinkat,link,linkat,mkdir,mkdirat,fsync,fdatasync";

/// What the calls of a trace did below `folder`. Those that failed did nothing.
pub(super) fn operations(text: &str, folder: &Path) -> Vec<Operation> {
    let mut reader = Reader { folder, places: BTreeMap::new(), made: Vec::new() };
    // Calls of several threads: the beginning is on one line, the end on another.
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some(start) = call.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, start);
        } else if let Some((_, end)) = call.split_once(" resumed>") {
            let start = begun.remove(thread).unwrap_or_default();
            reader.call(&format!("{start}{end}"));
        } else {
            reader.call(call);
        }
    }
    reader.made
}

struct Reader<'a> {
    folder: &'a Path,
    /// Where the next write through a descriptor goes; none if to the end.
    places: BTreeMap<String, Option<u64>>,
    made: Vec<Operation>,
}

impl Reader<'_> {
    fn call(&mut self, line: &str) {
        let Some((name, rest)) = line.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(") ") else { return };
        let Some(result) = result.trim_start().strip_prefix("= ") else { return };
        if result.starts_with(['-', '?']) {
            return;
        }
        let arguments: Vec<&str> = arguments.split(", ").collect();
        self.done(name, &arguments, result);
    }

    fn done(&mut self, name: &str, arguments: &[&str], result: &str) {
        let at = |place: usize| arguments.get(place).copied().unwrap_or_default();
        let number = |text: &str| text.parse().ok();
        match name {
            "openat" => self.open(at(0), at(1), at(2), result),
            "lseek" => drop(self.places.insert(descriptor(at(0)), number(result))),
            "write" | "writev" if descriptor(at(0)) == "1" => {
                let text = String::from_utf8_lossy(&quoted(arguments)).into_owned();
                self.made.push(Operation::Said(text));
            }
            "write" | "writev" if descriptor(at(0)) == "2" => {}
            "write" | "writev" => {
                let Some(path) = self.open_file(at(0)) else { return };
                let bytes = quoted(arguments);
                let place = self.places.get_mut(&descriptor(at(0)));
                let offset = place.as_deref().copied().flatten();
                if let Some(Some(place)) = place {
                    *place += bytes.len() as u64;
                }
                self.made.push(Operation::Write(path, offset, bytes));
            }
            "pwrite64" => {
                let Some(path) = self.open_file(at(0)) else { return };
                self.made.push(Operation::Write(path, number(at(3)), quoted(arguments)));
            }
            "ftruncate" => {
                let Some((path, len)) = self.open_file(at(0)).zip(number(at(1))) else { return };
                self.made.push(Operation::Resize(path, len));
            }
            "fsync" | "fdatasync" => {
                let Some(path) = self.open_file(at(0)) else { return };
                let is_folder = self.folder.join(&path).is_dir() || path == Path::new("");
                let synced = if is_folder { Operation::SyncFolder } else { Operation::SyncFile };
                self.made.push(synced(path));
            }
            "unlink" => self.one(None, at(0), Operation::Remove),
            "unlinkat" => self.one(Some(at(0)), at(1), Operation::Remove),
            "mkdir" => self.one(None, at(0), Operation::MakeFolder),
            "mkdirat" => self.one(Some(at(0)), at(1), Operation::MakeFolder),
            "rename" => self.two([(None, at(0)), (None, at(1))], Operation::Rename),
            "link" => self.two([(None, at(0)), (None, at(1))], Operation::Link),
            "renameat" | "renameat2" => {
                self.two([(Some(at(0)), at(1)), (Some(at(2)), at(3))], Operation::Rename);
            }
            "linkat" => self.two([(Some(at(0)), at(1)), (Some(at(2)), at(3))], Operation::Link),
            _ => {}
        }
    }

    fn open(&mut self, folder: &str, name: &str, flags: &str, result: &str) {
        let has = |flag: &str| flags.split('|').any(|it| it == flag);
        let place = if has("O_APPEND") { None } else { Some(0) };
        self.places.insert(descriptor(result), place);
        let Some(path) = self.within(Some(folder), name) else { return };
        let is_there = self.is_there(&path);
        if has("O_CREAT") && !is_there {
            self.made.push(Operation::Create(path));
        } else if has("O_TRUNC") && is_there {
            self.made.push(Operation::Resize(path, 0));
        }
    }

    /// Whether a file has a name by what was done so far. The folder was empty.
    fn is_there(&self, path: &Path) -> bool {
        let last = self.made.iter().rev().find_map(|operation| match operation {
            Operation::Create(made) | Operation::Link(_, made) if made == path => Some(true),
            Operation::Rename(from, to) if from == path || to == path => Some(to == path),
            Operation::Remove(gone) if gone == path => Some(false),
            _ => None,
        });
        last.unwrap_or(false)
    }

    fn one(&mut self, folder: Option<&str>, name: &str, make: fn(PathBuf) -> Operation) {
        self.made.extend(self.within(folder, name).map(make));
    }

    fn two(&mut self, names: [(Option<&str>, &str); 2], make: fn(PathBuf, PathBuf) -> Operation) {
        let [from, to] = names.map(|(folder, name)| self.within(folder, name));
        self.made.extend(from.zip(to).map(|(from, to)| make(from, to)));
    }

    /// A named path within the recorded folder.
    fn within(&self, folder: Option<&str>, name: &str) -> Option<PathBuf> {
        let name = path_of(&quoted(&[name]));
        let base = folder.and_then(open_path).unwrap_or_default();
        Some(base.join(name).strip_prefix(self.folder).ok()?.to_owned())
    }

    /// The path of an open file within the recorded folder; one without a name matters no more.
    fn open_file(&self, descriptor: &str) -> Option<PathBuf> {
        let path = open_path(descriptor).filter(|_| !descriptor.ends_with("(deleted)"))?;
        Some(path.strip_prefix(self.folder).ok()?.to_owned())
    }
}

/// `4` of `4</path>`.
fn descriptor(text: &str) -> String {
    text.chars().take_while(char::is_ascii_digit).collect()
}

/// The path of `4</path>`.
fn open_path(text: &str) -> Option<PathBuf> {
    let (_, rest) = text.split_once('<')?;
    Some(path_of(&unescaped(rest.split('>').next()?)))
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// All bytes between quotation marks.
fn quoted(arguments: &[&str]) -> Vec<u8> {
    let parts = arguments.iter().flat_map(|text| text.split('"').skip(1).step_by(2));
    parts.flat_map(unescaped).collect()
}

/// Bytes of `\x61\x62`.
fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.split("\\x").filter_map(|digits| u8::from_str_radix(digits, 16).ok());
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_become_operations_and_those_elsewhere_or_failed_do_not() {
        let escaped =
            |text: &str| text.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
        let (folder, a, b) = (escaped("/f"), escaped("/f/a"), escaped("b"));
        let text = format!(
            "7  openat(AT_FDCWD<{folder}>, \"{a}\", O_RDWR|O_CREAT|O_EXCL, 0600) = 3<{a}>\n\
             7  write(3<{a}>, \"\\x68\\x00\", 2) = 2\n\
             8  pwrite64(3<{a}>, \"\\x71\", 1, 7 <unfinished ...>\n\
             7  write(3<{a}>, \"\\x6a\", 1) = 1\n\
             8  <... pwrite64 resumed>) = 1\n\
             7  ftruncate(3<{a}>, 4) = 0\n\
             7  fdatasync(3<{a}>) = 0\n\
             7  renameat(AT_FDCWD<{folder}>, \"{a}\", 5<{folder}>, \"{b}\") = 0\n\
             7  unlink(\"{a}\") = -1 ENOENT (No such file or directory)\n\
             7  fsync(5<{folder}>) = 0\n\
             7  pwrite64(9<{a}>(deleted), \"\\x71\", 1, 0) = 1\n\
             7  write(1<{b}>, \"\\x6f\\x6b\\x0a\", 3) = 3\n\
             7  mkdir(\"{b}\", 0777) = 0\n\
             7  +++ exited with 0 +++\n"
        );
        let (a, b) = (PathBuf::from("a"), PathBuf::from("b"));
        let wanted = [
            Operation::Create(a.clone()),
            Operation::Write(a.clone(), Some(0), vec![0x68, 0]),
            Operation::Write(a.clone(), Some(2), vec![0x6a]),
            Operation::Write(a.clone(), Some(7), vec![0x71]),
            Operation::Resize(a.clone(), 4),
            Operation::SyncFile(a.clone()),
            Operation::Rename(a, b),
            Operation::SyncFolder(PathBuf::new()),
            Operation::Said("ok\n".into()),
        ];
        assert_eq!(operations(&text, Path::new("/f")), wanted);
    }
}
