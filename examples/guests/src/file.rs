//! The desired state, as a file declares it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use toml::{Spanned, Value};

use crate::host::MAX_NAME;

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

/// A name: of a guest, a disk, a network interface or a backup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

/// A number, of bytes as a rule: `1073741824`, `"1GiB"` or `"1GB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Size(u64);

/// A bound of a disk, of bytes or requests in a second; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Bound(u64);

/// A MAC address, as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Mac(String);

/// A file that declares no guests, and where the problem is.
#[derive(Clone, Debug)]
pub struct Error {
    line: usize,
    text: String,
    problem: String,
}

/// QEMU takes no larger bound of a throttle.
const MAX_BOUND: u64 = 1_000_000_000_000_000;

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

impl Name {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Name, String> {
        let is_letter = |c: char| c.is_ascii_lowercase();
        let is_known = |c: char| is_letter(c) || c.is_ascii_digit() || c == '-';
        match name.starts_with(is_letter) && name.chars().all(is_known) && name.len() <= MAX_NAME {
            true => Ok(Name(name)),
            false => Err(format!(
                "{name:?} is no name: use at most {MAX_NAME} of a to z, 0 to 9 and '-', \
                 a letter first"
            )),
        }
    }
}

impl Size {
    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<Value> for Size {
    type Error = String;

    fn try_from(value: Value) -> Result<Size, String> {
        let bytes = match &value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => bytes(text),
            _ => None,
        };
        // QEMU counts with a sign.
        let bytes = bytes.filter(|bytes| i64::try_from(*bytes).is_ok());
        bytes.map(Size).ok_or_else(|| {
            format!(
                "{value} is no size: write bytes, such as 1048576, or \"1MiB\", \"1MB\", \"2GiB\""
            )
        })
    }
}

impl Bound {
    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<Value> for Bound {
    type Error = String;

    fn try_from(value: Value) -> Result<Bound, String> {
        match Size::try_from(value)?.0 {
            bound @ 0..=MAX_BOUND => Ok(Bound(bound)),
            bound => Err(format!(
                "{bound} is above {MAX_BOUND}, the most that QEMU takes: write 0 for no bound"
            )),
        }
    }
}

fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("", 1),
        ("kB", 1000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.into_iter().find(|(known, _)| *known == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

impl Mac {
    /// Returns the address, as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the address as QEMU reports it.
    fn canonical(&self) -> String {
        self.0.to_ascii_lowercase().replace('-', ":")
    }
}

impl TryFrom<String> for Mac {
    type Error = String;

    fn try_from(text: String) -> Result<Mac, String> {
        let octets: Vec<_> = text.split([':', '-']).collect();
        let is_digits = |octet: &&str| octet.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_octet = |octet: &&str| octet.len() == 2 && is_digits(octet);
        let first = u8::from_str_radix(octets[0], 16).unwrap_or(1);
        match octets.len() == 6 && octets.iter().all(is_octet) && first & 1 == 0 {
            true => Ok(Mac(text)),
            false => Err(format!(
                "{text:?} is no address of one interface: write six pairs of digits, \
                 the first one even, such as 52:54:00:12:34:56"
            )),
        }
    }
}

impl Error {
    fn at(text: &str, span: Option<Range<usize>>, problem: String) -> Error {
        let before = span
            .and_then(|span| text.get(..span.start))
            .unwrap_or_default();
        let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
        let text = text
            .lines()
            .nth(line - 1)
            .unwrap_or_default()
            .trim()
            .to_owned();
        Error {
            line,
            text,
            problem,
        }
    }

    /// Returns the number of the line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
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

/// Formats as `3: memory = "1XB": "1XB" is no size: …`, to come after the file's name.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.line, self.text, self.problem)
    }
}

impl std::error::Error for Error {}

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
        assert_eq!(
            (name.as_str(), web.state, web.memory.get()),
            ("web", State::Running, 32 << 20)
        );
        assert_eq!(web.description, None);
        let root = &web.disks.first_key_value().unwrap().1;
        assert_eq!(
            (root.size.get(), root.bps, root.iops),
            (16 << 20, Some(Bound(10_000_000)), Some(Bound(100)))
        );
        assert!(File::parse("").unwrap().guests.is_empty());
    }

    #[test]
    fn an_error_names_the_line_the_key_and_the_remedy() {
        let wrong = [
            (
                "memory = \"32MiB\"",
                "memry = \"32MiB\"",
                4,
                "expected one of `state`, `memory`",
            ),
            ("\"32MiB\"", "\"32XiB\"", 4, "write bytes"),
            ("\"32MiB\"", "-1", 4, "write bytes"),
            ("\"32MiB\"", "\"9999999999TiB\"", 4, "write bytes"),
            (
                "\"running\"",
                "\"runing\"",
                3,
                "expected one of `running`, `paused`, `stopped`",
            ),
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
        let error = File::parse(&format!("{GOOD}{second}"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("13: mac") && error.contains("db/x has this address"),
            "{error}"
        );
    }
}
