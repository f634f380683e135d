//! What a log says of itself in the section that each of its chunks begins with: the mode in force
//! and the classes by number.

use crate::account::one_line;

/// First line of the text that describes the log in a section header.
const SECTION_TEXT: &str = "packetlog 1";
/// Bytes of a class's name in a section.
const NAME_LEN_MAX: usize = 64;

/// A class of traffic, in the order of its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassInfo {
    /// Its name.
    pub name: String,
    /// How late it is overwritten: 0 goes first. Each priority has files of its own.
    pub priority: u8,
}

/// The log's own text in a section header, a fact a line.
pub(crate) fn section_text((generation, mode): &(u64, String), classes: &[ClassInfo]) -> String {
    let mut text = format!("{SECTION_TEXT}\nmode\t{generation}\t{}\n", one_line(mode));
    for (number, class) in classes.iter().enumerate() {
        let name = class_label(&class.name);
        text.push_str(&format!("class\t{number}\t{}\t{name}\n", class.priority));
    }
    text
}

/// The name of a class as files of the log have it.
pub(crate) fn class_label(name: &str) -> String {
    one_line(name.get(..name.floor_char_boundary(NAME_LEN_MAX)).unwrap_or_default())
}

/// What [`section_text`] wrote: the mode, and classes by number.
pub(crate) fn read_section_text(text: &str) -> Option<((u64, String), Vec<ClassInfo>)> {
    let mut lines = text.lines();
    if lines.next() != Some(SECTION_TEXT) {
        return None;
    }
    let mut mode = (0, String::new());
    let mut classes = Vec::new();
    for line in lines {
        let mut parts = line.splitn(4, '\t');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("mode"), Some(generation), Some(name), None) => {
                mode = (generation.parse().ok()?, name.to_owned());
            }
            (Some("class"), Some(number), Some(priority), Some(name)) => {
                if number.parse() != Ok(classes.len()) {
                    return None;
                }
                let priority = priority.parse().ok()?;
                // It is shown to people: nothing in it moves their cursor.
                classes.push(ClassInfo { name: class_label(name), priority });
            }
            _ => {}
        }
    }
    Some((mode, classes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_names_its_mode_and_classes() {
        let classes = [
            ClassInfo { name: "benign".into(), priority: 0 },
            ClassInfo { name: "port\tscan\n".into(), priority: 2 },
        ];
        let text = section_text(&(3, "log-sampled".into()), &classes);
        let (mode, read) = read_section_text(&text).unwrap();
        assert_eq!(mode, (3, "log-sampled".into()));
        assert_eq!((&read[0], read[1].name.as_str()), (&classes[0], "port scan "));
        assert_eq!(read_section_text("packetlog 2\n"), None);
        assert_eq!(read_section_text("packetlog 1\nclass\t1\t0\tx\n"), None);
    }
}
