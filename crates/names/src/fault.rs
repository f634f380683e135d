//! What can be wrong with bytes that names are read from.

/// Declares an enumeration of faults, each with a sentence and a stable name.
macro_rules! faults {
    (
        $(#[$of:meta])* $type:ident:
        $($(#[doc = $about:literal])* $name:ident = $text:literal;)*
    ) => {
        $(#[$of])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $type {
            $($(#[doc = $about])* $name,)*
        }

        impl $type {
            /// Every fault, in the order of their discriminants.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$name,)*];
            /// How many faults there are.
            pub const COUNT: usize = [$(stringify!($name),)*].len();

            /// The name used in output and metrics: `snake_case`, stable.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// One sentence for people: what was seen.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($about),*).trim_ascii(),)* }
            }
        }

        /// The sentence of `about`.
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.about())
            }
        }
    };
}
pub(crate) use faults;
