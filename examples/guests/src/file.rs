//! The desired state, as a file declares it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

mod error;
mod values;

pub use error::Error;
pub use values::{Bound, Mac, Name, Size};

/// The guests of a file: all that there are to be, and no others.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The guests by name.
    #[serde(default)]
    pub guests: BTreeMap<Name, Guest>,
}

/// A guest. What is absent is left as it is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// Its run state.
    pub state: State,
    /// The size of its memory. To change it the guest is stopped.
    pub memory: Size,
    /// Text for people.
    pub description: Option<String>,
    /// Its disks by name.
    #[serde(default)]
    pub disks: BTreeMap<Name, Disk>,
    /// Its network interfaces by name.
    #[serde(default)]
    pub nics: BTreeMap<Name, Nic>,
}

/// A run state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its processor runs.
    Running,
    /// Its processor is paused, and its memory kept.
    Paused,
    /// It has no process. Its disks are kept, and compared again when it is started.
    Stopped,
}

/// A disk.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its size.
    pub size: Size,
    /// The most that it reads and writes in a second; 0 for no bound.
    pub bps: Option<Bound>,
    /// The most requests that it serves in a second; 0 for no bound.
    pub iops: Option<Bound>,
    /// The names of its backups: each is made once.
    #[serde(default)]
    pub backups: Vec<Name>,
    /// Whether its image is kept as it was, and what is written goes into an overlay. The overlay
    /// is committed into the image when this is false again.
    #[serde(default)]
    pub snapshot: bool,
}

/// A network interface.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Its address. To change it the interface is unplugged.
    pub mac: Spanned<Mac>,
}

impl File {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// When it is no TOML, or a key or a value in it is none that is known.
    pub fn parse(text: &str) -> Result<File, Error> {
        let at = |span: Option<Range<usize>>, problem: String| Error::at(text, span, problem);
        let file: File =
            toml::from_str(text).map_err(|error| at(error.span(), error.message().to_owned()))?;
        let mut macs: BTreeMap<String, String> = BTreeMap::new();
        for (guest, Guest { nics, .. }) in &file.guests {
            for (nic, Nic { mac }) in nics {
                let owner = format!("{guest}/{nic}");
                let problem = |other: &String| {
                    format!("{other} has this address already: give each interface its own")
                };
                match macs.get(&mac.get_ref().canonical()) {
                    Some(other) => return Err(at(Some(mac.span()), problem(other))),
                    None => macs.insert(mac.get_ref().canonical(), owner),
                };
            }
        }
        Ok(file)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Running => "running",
            State::Paused => "paused",
            State::Stopped => "stopped",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[guests.web]
state = "running"
memory = "32MiB"

[guests.web.disks.root]
size = "16 MiB"
bps = "10MB"
iops = 100
backups = ["nightly"]

[guests.web.nics.lan]
mac = "52:54:00:AB:CD:EF"
"#;

    #[test]
    fn a_good_file_is_read_as_it_is_written() {
        let file = File::parse(GOOD).unwrap();
        let (name, web) = file.guests.first_key_value().unwrap();
        assert_eq!((name.as_str(), web.state, web.memory.get()), ("web", State::Running, 32 << 20));
        assert_eq!(web.description, None);
        let root = &web.disks.first_key_value().unwrap().1;
        assert_eq!(
            (root.size.get(), root.bps.map(Bound::get), root.iops.map(Bound::get)),
            (16 << 20, Some(10_000_000), Some(100))
        );
        assert!(File::parse("").unwrap().guests.is_empty());
    }

    #[test]
    fn an_error_names_the_line_the_key_and_the_remedy() {
        let wrong = [
            ("memory = \"32MiB\"", "memry = \"32MiB\"", 4, "expected one of `state`, `memory`"),
            ("\"32MiB\"", "\"32XiB\"", 4, "write bytes"),
            ("\"32MiB\"", "-1", 4, "write bytes"),
            ("\"32MiB\"", "\"9999999999TiB\"", 4, "write bytes"),
            ("\"running\"", "\"runing\"", 3, "expected one of `running`, `paused`, `stopped`"),
            ("100", "1000000000000001", 9, "write 0 for no bound"),
            ("guests.web]", "guests.Web]", 2, "a letter first"),
            ("disks.root", "disks.a-name-of-16-byte", 6, "at most 15"),
            ("[\"nightly\"]", "[\"../x\"]", 10, "a letter first"),
            ("52:54", "53:54", 13, "such as 52:54:00"),
            ("52:54", "52", 13, "such as 52:54:00"),
            ("52:54", "+2:54", 13, "such as 52:54:00"),
            ("size = \"16 MiB\"\n", "", 6, "missing field `size`"),
            ("[guests.web]", "[guests.web", 2, ""),
        ];
        for (old, new, line, remedy) in wrong {
            let text = GOOD.replacen(old, new, 1);
            let error = File::parse(&text).unwrap_err();
            let key = text.lines().nth(line - 1).unwrap();
            let shown = error.to_string();
            assert!(
                shown.starts_with(&format!("{line}: {key}")) && shown.contains(remedy),
                "{new}: {shown}"
            );
        }
    }

    #[test]
    fn an_address_belongs_to_one_interface() {
        let second = "[guests.db]\nstate = \"stopped\"\nmemory = 1\n\
                      nics.x.mac = \"52-54-00-ab-cd-ef\"\n";
        let error = File::parse(&format!("{GOOD}{second}")).unwrap_err().to_string();
        assert!(error.starts_with("13: mac") && error.contains("db/x has this address"), "{error}");
    }
}
