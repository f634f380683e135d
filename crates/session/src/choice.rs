//! Settings that are one of a few words.

/// One of a few values with names, the same on the command line, in files and in Python.
pub trait Choice: Copy + 'static {
    /// What it chooses, as messages call it.
    const NOUN: &'static str;
    /// All values.
    const ALL: &'static [Self];

    /// Its name.
    fn name(self) -> &'static str;

    /// What it means, in a line.
    fn about(self) -> &'static str;

    /// Another name, that of a tool whose users know it by that.
    fn alias(self) -> Option<&'static str>;

    /// The value of this name.
    ///
    /// # Errors
    /// What was seen and what was wanted.
    fn named(name: &str) -> Result<Self, String> {
        let is_named = |choice: &Self| choice.name() == name || choice.alias() == Some(name);
        Self::ALL.iter().copied().find(is_named).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|choice| choice.name()).collect();
            let (last, others) = names.split_last().map_or(("", &names[..]), |(l, o)| (l, o));
            format!("`{name}` is not a {}; give {} or {last}", Self::NOUN, others.join(", "))
        })
    }
}

/// Declares an enumeration that is a [`Choice`]; each value's documentation is what it means.
macro_rules! choice {
    (
        $(#[$of:meta])* $type:ident: $noun:literal
        { $($value:ident = $name:literal $(| $alias:literal)?, $about:literal;)* }
    ) => {
        $(#[$of])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $type {
            $(#[doc = $about] $value,)*
        }

        impl $crate::choice::Choice for $type {
            const NOUN: &'static str = $noun;
            const ALL: &'static [Self] = &[$(Self::$value),*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }

            fn about(self) -> &'static str {
                match self {
                    $(Self::$value => $about,)*
                }
            }

            fn alias(self) -> Option<&'static str> {
                match self {
                    $(Self::$value => [$($alias)?].first().copied(),)*
                }
            }
        }
    };
}
pub(crate) use choice;
