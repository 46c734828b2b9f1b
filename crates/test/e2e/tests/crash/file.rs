//! The desired states, as the agent reads them.

use std::sync::OnceLock;

use trueup_file::{File as Parsed, TableNames};
use trueup_net::Desired;

/// A file of desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum File {
    /// Objects of every kind.
    First,
    /// After the first one: some objects of every kind are added, changed and deleted.
    Second,
    /// Another change.
    Third,
    /// Every kind is managed, and no object is desired.
    Nothing,
}

impl File {
    pub(crate) const ALL: [File; 4] = [File::First, File::Second, File::Third, File::Nothing];

    pub(crate) fn name(self) -> &'static str {
        match self {
            File::First => "first",
            File::Second => "second",
            File::Third => "third",
            File::Nothing => "nothing",
        }
    }

    pub(crate) fn named(name: &str) -> Option<File> {
        File::ALL.into_iter().find(|file| file.name() == name)
    }

    pub(crate) fn desired(self) -> &'static Desired {
        static READ: [OnceLock<Desired>; 4] = [const { OnceLock::new() }; 4];
        READ[self as usize].get_or_init(|| self.read())
    }

    fn read(self) -> Desired {
        let text = match self {
            File::First => include_str!("states/first.toml"),
            File::Second => include_str!("states/second.toml"),
            File::Third => include_str!("states/third.toml"),
            File::Nothing => include_str!("states/nothing.toml"),
        };
        let parsed = Parsed::parse(self.name(), text.as_bytes(), &TableNames::default());
        parsed.unwrap().desired
    }
}
