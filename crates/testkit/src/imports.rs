//! Which folders of a package import from which others, told from the text of its files.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::File;
use crate::source::{lines_before_tests, mask_python, mask_rust, numbered};

/// Names from the root of a package downwards: of a module, or of a folder.
type Place = Vec<String>;

/// One file that needs something from another folder of its package.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Import {
    /// Path of the file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The folder that imports, below the last one that both are in.
    pub from: String,
    /// The folder that is imported from, below the same one.
    pub to: String,
}

/// A name that is imported, or a path that is written out where it is used.
struct Named {
    line: usize,
    path: Place,
    /// The name that others may find it by, where it is handed on.
    handed_on: Option<String>,
}

/// The modules of a package, and where names that they hand on are from.
#[derive(Default)]
struct Package {
    modules: BTreeSet<Place>,
    folders: BTreeSet<Place>,
    handed_on: BTreeMap<Place, BTreeMap<String, Place>>,
}

/// Names handed on from module to module are followed so far.
const HAND_COUNT_MAX: usize = 8;

/// What the folders of a crate import from each other; `root` is its folder of sources.
#[must_use]
pub fn of_crate(files: &[File], root: &str) -> Vec<Import> {
    let is_tested = |file: &&File| !file.path.contains("/tests/") && file.name() != "tests.rs";
    let found: Vec<(&File, Place)> = files
        .iter()
        .filter(|file| file.is_at(root) && file.suffix() == "rs")
        .filter(is_tested)
        .map(|file| (file, module_of(&file.path[root.len()..], &["mod", "lib", "main"])))
        .collect();
    let mut package = Package::of(&found);
    let mut named = Vec::new();
    for (file, module) in &found {
        for name in names_of_rust(file.text().unwrap_or_default()) {
            let Some(path) = package.absolute(module, &name.path) else { continue };
            if let Some(handed_on) = name.handed_on {
                package
                    .handed_on
                    .entry(module.clone())
                    .or_default()
                    .insert(handed_on, path.clone());
            }
            named.push((*file, name.line, module, path));
        }
    }
    let reached = |(file, line, module, path): (&File, usize, &Place, Place)| {
        let reached = package.folders_of(&path);
        let imports = reached.iter().filter_map(|to| import(root, &package.folder_of(module), to));
        let at = |(from, to)| Import { path: file.path.clone(), line, from, to };
        imports.map(at).collect::<Vec<_>>()
    };
    named.into_iter().flat_map(reached).collect()
}

/// What the folders of a Python package import from each other; `root` is the package.
#[must_use]
pub fn of_python(files: &[File], root: &str) -> Vec<Import> {
    let name = root.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let found: Vec<(&File, Place)> = files
        .iter()
        .filter(|file| file.is_at(root) && file.suffix() == "py")
        .map(|file| (file, module_of(&file.path[root.len()..], &["__init__"])))
        .collect();
    let package = Package::of(&found);
    let mut imports = Vec::new();
    for (file, module) in &found {
        let folder = package.folder_of(module);
        for (line, path) in names_of_python(file.text().unwrap_or_default(), name, &folder) {
            let reached = package.folders_of(&path);
            let found = reached.iter().filter_map(|to| import(root, &folder, to));
            imports.extend(found.map(|(from, to)| Import {
                path: file.path.clone(),
                line,
                from,
                to,
            }));
        }
    }
    imports
}

/// Where two folders part: a folder does not import from those that it is in, nor they from it.
fn import(root: &str, from: &Place, to: &Place) -> Option<(String, String)> {
    let same = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    if from.len() <= same || to.len() <= same {
        return None;
    }
    let named = |place: &Place| format!("{root}{}", place[..=same].join("/"));
    Some((named(from), named(to)))
}

/// `a/b` of `a/b.rs` and of `a/b/mod.rs`.
fn module_of(path: &str, folder_files: &[&str]) -> Place {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let mut module: Place = stem.split('/').map(str::to_owned).collect();
    module.pop_if(|last| folder_files.contains(&last.as_str()));
    module
}

impl Package {
    fn of(found: &[(&File, Place)]) -> Self {
        let mut package = Self::default();
        for (file, module) in found {
            package.modules.insert(module.clone());
            if matches!(file.name(), "mod.rs" | "__init__.py") {
                package.folders.insert(module.clone());
            }
            for len in 1..module.len() {
                package.folders.insert(module[..len].to_vec());
                package.modules.insert(module[..len].to_vec());
            }
        }
        package
    }

    /// The folder that a module lies in, or is.
    fn folder_of(&self, module: &Place) -> Place {
        let is_folder = |len: &usize| self.folders.contains(&module[..*len]);
        let len = (1..=module.len()).rev().find(is_folder).unwrap_or(0);
        module[..len].to_vec()
    }

    /// From the root of the package; `None` for what is none of it.
    fn absolute(&self, module: &Place, path: &[String]) -> Option<Place> {
        let mut base = module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (base, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while let Some(("super", after)) = rest.split_first().map(|(a, b)| (a.as_str(), b))
                {
                    base.pop();
                    rest = after;
                }
            }
            child => {
                base.push(child.to_owned());
                if !self.modules.contains(&base) {
                    return None;
                }
                rest = &path[1..];
            }
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// The folders that a name is found by and from, first to last.
    fn folders_of(&self, path: &Place) -> Vec<Place> {
        let (mut path, mut folders) = (path.clone(), Vec::new());
        for _ in 0..HAND_COUNT_MAX {
            let is_module = |len: &usize| self.modules.contains(&path[..*len]);
            let len = (1..=path.len()).rev().find(is_module).unwrap_or(0);
            let module = path[..len].to_vec();
            folders.push(self.folder_of(&module));
            let handed_on = path.get(len).and_then(|name| self.handed_on.get(&module)?.get(name));
            let Some(source) = handed_on else { break };
            path = [source, &path[len + 1..]].concat();
        }
        folders
    }
}

/// All paths of a file of Rust, tests left out.
fn names_of_rust(text: &str) -> Vec<Named> {
    let masked = mask_rust(text);
    let lines: Vec<(usize, &str)> = lines_before_tests(&masked).collect();
    let mut named = Vec::new();
    let mut at = 0;
    while let Some(&(line, text)) = lines.get(at) {
        at += 1;
        let Some((is_public, used)) = use_of(text) else {
            named.extend(paths_within(text).map(|path| Named { line, path, handed_on: None }));
            continue;
        };
        let mut tree = used.to_owned();
        while !tree.contains(';')
            && let Some((_, more)) = lines.get(at)
        {
            tree.push_str(more.trim());
            at += 1;
        }
        for (path, name) in leaves(tree.split(';').next().unwrap_or_default()) {
            named.push(Named { line, path, handed_on: is_public.then_some(name) });
        }
    }
    named
}

/// What follows `use`, and whether others may use it as well.
fn use_of(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("use ") {
        return Some((false, rest));
    }
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')')?.1,
        None => rest,
    };
    Some((true, rest.strip_prefix(" use ")?))
}

/// The paths in a tree of `use`, each with the name that it has here.
fn leaves(tree: &str) -> Vec<(Place, String)> {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path: Place = path.split("::").map(|part| part.trim().to_owned()).collect();
        let name = if name.is_empty() { path.last().cloned() } else { Some(name.trim().into()) };
        return vec![(path, name.unwrap_or_default())];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| leaves(&format!("{head}{}", part.trim()))).collect()
}

/// Paths of the crate that are written out in a line of code.
fn paths_within(line: &str) -> impl Iterator<Item = Place> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    ["crate::", "super::", "self::"].into_iter().flat_map(move |word| {
        line.match_indices(word).filter_map(move |(at, _)| {
            if line[..at].chars().next_back().is_some_and(is_part) {
                return None;
            }
            let path = line[at..].split(|letter| !is_part(letter)).next().unwrap_or_default();
            Some(path.trim_end_matches(':').split("::").map(str::to_owned).collect())
        })
    })
}

/// What a file of Python in `folder` imports of the package `name`, from the package's root.
fn names_of_python(text: &str, name: &str, folder: &Place) -> Vec<(usize, Place)> {
    let masked = mask_python(text);
    let mut lines = numbered(&masked);
    let mut named = Vec::new();
    while let Some((line, text)) = lines.next() {
        let mut text = text.trim().to_owned();
        if let Some(modules) = text.strip_prefix("import ") {
            let modules = modules.split(',').filter_map(|module| module.split_whitespace().next());
            named.extend(modules.filter_map(|module| Some((line, inside(module, name, folder)?))));
            continue;
        }
        if !text.starts_with("from ") {
            continue;
        }
        while text.contains('(')
            && !text.contains(')')
            && let Some((_, more)) = lines.next()
        {
            text.push_str(more.trim());
        }
        let Some((module, names)) = text[5..].split_once(" import ") else { continue };
        let Some(place) = inside(module.trim(), name, folder) else { continue };
        for imported in names.trim_matches(['(', ')']).split(',') {
            let first = imported.split_whitespace().next();
            named.extend(first.map(|first| (line, [&place[..], &[first.to_owned()]].concat())));
        }
    }
    named
}

/// A module of the package, from its root.
fn inside(module: &str, name: &str, folder: &Place) -> Option<Place> {
    let relative = module.trim_start_matches('.');
    let parts = relative.split('.').filter(|part| !part.is_empty()).map(str::to_owned);
    let up = module.len() - relative.len();
    if up > 0 {
        let base = folder.get(..(folder.len() + 1).checked_sub(up)?)?;
        return Some(base.iter().cloned().chain(parts).collect());
    }
    let mut parts = parts;
    (parts.next()? == name).then(|| parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(imports: Vec<Import>) -> Vec<(usize, String, String)> {
        imports.into_iter().map(|import| (import.line, import.from, import.to)).collect()
    }

    fn pair(line: usize, from: &str, to: &str) -> (usize, String, String) {
        (line, from.to_owned(), to.to_owned())
    }

    #[test]
    fn imports_of_a_crate_are_seen_however_they_are_written() {
        let text = "// use crate::b::C;\n\
                    pub(crate) use crate::{\n    b::{self, C as D},\n    c::E,\n};\n\n\
                    fn f() -> super::super::c::G { crate::handed() }\n\
                    #[cfg(test)]\nmod tests { use crate::d::H; }\n";
        let files = [
            File::new("x/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use d::deep::handed;\n"),
            File::new("x/src/a/inner.rs", text),
            File::new("x/src/b/mod.rs", "use super::top::T;\n"),
            File::new("x/src/c.rs", "mod under;\nuse crate::a::D;\n"),
            File::new("x/src/c/under.rs", "use super::E;\n"),
            File::new("x/src/d/deep.rs", ""),
            File::new("x/src/top.rs", "use crate::b::C;\n"),
        ];
        let (a, b, c, d) = ("x/src/a", "x/src/b", "x/src/c", "x/src/d");
        let found = pairs(of_crate(&files, "x/src/"));
        let (mut found, mut wanted) = (
            found,
            vec![
                pair(2, a, b),
                pair(2, a, b),
                pair(2, a, c),
                pair(7, a, c),
                pair(7, a, d),
                pair(2, c, a),
            ],
        );
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
    }

    #[test]
    fn imports_of_a_python_package_are_seen_however_they_are_written() {
        let text = "\"\"\"from p.a import f\"\"\"\nimport os, p.b.two as two\n\
                    from ..a import (\n    f,\n)\nfrom p import a\nfrom . import one\n\
                    from p.b import one\nfrom pa.a import x\n";
        let files = [
            File::new("y/p/__init__.py", "from .a import f\n"),
            File::new("y/p/a/__init__.py", ""),
            File::new("y/p/a/first.py", "from ..c import z\n"),
            File::new("y/p/b/one.py", ""),
            File::new("y/p/b/two.py", ""),
            File::new("y/p/c/__init__.py", text),
        ];
        let (a, b, c) = ("y/p/a", "y/p/b", "y/p/c");
        let wanted = [pair(1, a, c), pair(2, c, b), pair(3, c, a), pair(6, c, a), pair(8, c, b)];
        assert_eq!(pairs(of_python(&files, "y/p/")), wanted);
    }
}
