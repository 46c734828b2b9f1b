//! The desired state, as declared in a file.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

mod error;
mod values;

pub use error::Error;
pub use values::{Bound, Mac, Name, Size};

/// All desired guests of a file; other guests are removed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The guests by their names; empty for none.
    #[serde(default)]
    pub guests: BTreeMap<Name, Guest>,
}

/// A desired guest. Absent properties are left as they are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// The desired run state: running, paused or stopped.
    pub state: State,
    /// The size of its memory in bytes. The guest is stopped to change it.
    pub memory: Size,
    /// Text for users; `None` leaves it as it is.
    pub description: Option<String>,
    /// Its disks by their names.
    #[serde(default)]
    pub disks: BTreeMap<Name, Disk>,
    /// Its network interfaces by their names.
    #[serde(default)]
    pub nics: BTreeMap<Name, Nic>,
}

/// The run state of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its processor runs.
    Running,
    /// Its processor is paused; its memory is kept.
    Paused,
    /// It has no process. Its disks are kept, and compared again at its start.
    Stopped,
}

/// A disk of a guest, as desired.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its size in bytes.
    pub size: Size,
    /// The limit of bytes that it reads and writes in a second; 0 for none.
    pub bps: Option<Bound>,
    /// The limit of requests that it serves in a second; 0 for none.
    pub iops: Option<Bound>,
    /// The names of its backups; each is made once.
    #[serde(default)]
    pub backups: Vec<Name>,
    /// True if its image is kept as it was, with new writes in an overlay. The overlay is committed
    /// into the image when this is false again.
    #[serde(default)]
    pub snapshot: bool,
}

/// A network interface of a guest, as desired.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Its MAC address. The interface is unplugged to change it.
    pub mac: Spanned<Mac>,
}

impl File {
    /// Parses the text of a file.
    ///
    /// # Errors
    ///
    /// If it is not TOML, or has an unknown key or an invalid value.
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
