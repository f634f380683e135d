//! `wirelens completions` and `wirelens man`: files that are installed along with the program,
//! made from the definition of the commands.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _, ValueEnum};
use clap_complete::Shell as Generator;
use clap_mangen::Man;

use crate::args::Arguments;
use crate::failure::{Failure, Status};

/// Which completions to print.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens completions bash > ~/.local/share/bash-completion/completions/wirelens
  wirelens completions zsh > ~/.zfunc/_wirelens
  wirelens completions fish > ~/.config/fish/completions/wirelens.fish

`make install` and the Debian package install them.")]
pub struct CompletionsArguments {
    /// The shell that reads them
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// A shell with completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Shell {
    /// For bash-completion, which loads them when they are first needed
    Bash,
    /// For a folder of fpath
    Zsh,
    /// For a folder of fish_complete_path
    Fish,
}

/// Where to write manual pages.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  wirelens man ~/.local/share/man/man1

`make install` and the Debian package install them.")]
pub struct ManArguments {
    /// Folder for wirelens.1, wirelens-top.1, …; created if it does not exist, and pages of these
    /// names are replaced
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Runs `wirelens completions`.
pub(crate) fn print_completions(arguments: &CompletionsArguments) -> Result<Status, Failure> {
    let generator = match arguments.shell {
        Shell::Bash => Generator::Bash,
        Shell::Zsh => Generator::Zsh,
        Shell::Fish => Generator::Fish,
    };
    // To memory first: the generator panics where it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(generator, &mut Arguments::command(), "wirelens", &mut text);
    io::stdout().lock().write_all(&text)?;
    Ok(Status::Fine)
}

/// Runs `wirelens man`.
pub(crate) fn write_pages(arguments: &ManArguments) -> Result<Status, Failure> {
    let folder = &arguments.folder;
    let failed = |path: &Path, error| {
        let wanted = "give a folder that can be created or written";
        Failure::error(format_args!("{}: {error}; {wanted}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut command = Arguments::command().version(env!("CARGO_PKG_VERSION"));
    command.build();
    for (name, page) in pages(&command)? {
        let path = folder.join(name);
        fs::write(&path, page).map_err(|error| failed(&path, error))?;
    }
    Ok(Status::Fine)
}

/// What the help says last, its lines as they are where they are indented: examples and lists,
/// which the generator's own section would fill.
fn notes_section(notes: &str) -> String {
    let mut section = String::from(".SH NOTES\n");
    let mut is_filled = true;
    for line in notes.lines() {
        let as_it_is = line.starts_with(' ') || (line.is_empty() && !is_filled);
        if as_it_is == is_filled {
            section.push_str(if as_it_is { ".nf\n" } else { ".fi\n" });
            is_filled = !as_it_is;
        }
        // A line that begins with a dot or a quote would be a request.
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        let text = if line.is_empty() { ".sp\n".to_owned() } else { format!("\\&{line}\n") };
        section.push_str(&text);
    }
    if !is_filled {
        section.push_str(".fi\n");
    }
    section
}

/// Names and texts of the pages of a command and of those below it that its help lists.
fn pages(command: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    // Built, a command is called `wirelens-packetlog-query` for display.
    let name = command.get_display_name().unwrap_or("wirelens").to_owned();
    let source = format!("wirelens {}", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).title(name.as_str()).source(source);
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        page.render_options_section(&mut text)?;
    }
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    let notes = command.get_after_long_help().or(command.get_after_help());
    text.extend(notes.map(|notes| notes_section(&notes.to_string())).unwrap_or_default().bytes());
    let mut found = vec![(format!("{name}.1"), text)];
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    for sub in below.filter(|sub| sub.get_name() != "help") {
        found.extend(pages(sub)?);
    }
    Ok(found)
}
