//! `grants`: an operator's signed list of the prefixes that each host may export.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use trueup::path::{self, Readers, TrustedUsers, open_any};
use trueup::world::{Grants, grants_public_key};

use super::{Opened, Store, hex, print, random};
use crate::{Common, output};
use trueup_agent::exchange::{Use, grants_check, read_grants};

/// What to do.
#[derive(clap::Subcommand)]
pub(crate) enum Task {
    /// Make a file with a new secret key, readable by its owner alone, and print the public key,
    /// for grants_key in [world]; if the file is there, print its public key
    Key {
        /// The file of the secret key
        key: PathBuf,
    },
    /// Sign a list, and print it as `put` takes it
    ///
    /// It needs no store: keep the secret key on a host that is none of those that exchange routes.
    Sign {
        /// The file of the secret key, which no other user may read
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// For how many days it is valid, from now on
        #[arg(long, value_name = "DAYS", default_value = "365")]
        days: u32,
        /// The list, JSON of `serial`, which rises with each list, and `grants`, each of `host` and
        /// `prefixes`; `-` is the standard input
        list: PathBuf,
    },
    /// Put a signed list in force for all hosts with its public key; an operator may
    Put {
        #[command(flatten)]
        store: Store,
        /// What `sign` printed; `-` is the standard input
        signed: PathBuf,
    },
    /// Print the grants that count for this host, or why none do
    Show(Store),
}

/// The number of hexadecimal digits of a key.
const DIGITS: usize = 64;

pub(super) fn grants(common: &Common, task: &Task) -> Result<()> {
    match task {
        Task::Key { key } => {
            let public = grants_public_key(&secret_key(key, true)?);
            output::print(|out| writeln!(out, "{}", hex(&public)))
        }
        Task::Sign { key, days, list } => {
            let lifetime = Duration::from_secs(86_400) * *days;
            let grants = Grants::read_list(&read(list)?, SystemTime::now(), lifetime)
                .with_context(|| format!("{}", list.display()))?;
            let signed = grants.sign(&secret_key(key, false)?)?;
            output::print(|out| out.write_all(&signed))
        }
        Task::Put { store, signed } => {
            let content = read(signed)?;
            let Opened { named, world, .. } = store.open(common, Use::Write)?;
            let check = grants_check(&named)?.context(NO_KEY)?;
            world.put_grants(&content, &check, SystemTime::now())?;
            Ok(())
        }
        Task::Show(store) => {
            let Opened { named, state, world, .. } = store.open(common, Use::Read)?;
            let grants = read_grants(&world, &named, &state, |_| Ok(()))?.context(NO_KEY)?;
            for (host, prefixes) in grants.prefixes() {
                let record = Record {
                    host: host.clone(),
                    prefixes: prefixes.iter().map(ToString::to_string).collect(),
                    serial: grants.serial(),
                    ends: trueup_agent::text::seconds(grants.ends()),
                };
                print(common.format, &record)?;
            }
            Ok(())
        }
    }
}

const NO_KEY: &str = "[world] has no grants_key: write the public key that `trueup world grants \
                      key` prints";

/// The prefixes that a host may export.
#[derive(Serialize)]
struct Record {
    host: String,
    prefixes: Vec<String>,
    serial: u64,
    /// The end of validity, in seconds since 1970.
    ends: f64,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, prefixes) = (&self.host, self.prefixes.join(", "));
        write!(f, "{host}: {prefixes} (list {})", self.serial)
    }
}

/// Reads a file without secrets, up to the length of a signed list.
fn read(path: &Path) -> Result<Vec<u8>> {
    // With its signature.
    let longest = Grants::MAX_BYTES as u64 + 1024;
    if path.as_os_str() != "-" {
        return Ok(path::read(path, &open_any(path)?, longest)?);
    }
    let mut content = Vec::new();
    let stdin = io::stdin().take(longest + 1).read_to_end(&mut content);
    stdin.context("cannot read the standard input")?;
    if content.len() as u64 > longest {
        bail!("a list has {} bytes at most", Grants::MAX_BYTES);
    }
    Ok(content)
}

/// Reads a secret key. If `make`, a missing file is made.
fn secret_key(path: &Path, make: bool) -> Result<[u8; 32]> {
    trueup_agent::forbid_core_dumps()?;
    let users = TrustedUsers::current()?;
    if make {
        make_key(&users, path)?;
    }
    let content = users.read_ours(path, Readers::Us, DIGITS as u64 + 1)?;
    let text = content.strip_suffix(b"\n").unwrap_or(&content);
    let text = str::from_utf8(text).ok();
    text.and_then(key).with_context(|| format!("{}: it has no {DIGITS} digits", path.display()))
}

/// Makes a file with a random key, unless it exists.
fn make_key(users: &TrustedUsers, path: &Path) -> Result<()> {
    let digits = hex(&random::<32>()?);
    let place = users.place(path)?;
    place.folder().clone().ours()?;
    let mut file = match place.create_new(0o600) {
        Err(error) if error.io_kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    };
    writeln!(file, "{digits}")?;
    file.sync_all()?;
    Ok(place.folder().sync()?)
}

fn key(text: &str) -> Option<[u8; 32]> {
    if text.len() != DIGITS || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use trueup_testkit::Scratch;

    use super::*;

    #[test]
    fn a_secret_key_is_made_once_and_read_only_while_it_is_private() {
        let directory = Scratch::make("grants").unwrap();
        let path = directory.join("key");
        assert!(secret_key(&path, false).is_err(), "it is missing");
        let made = secret_key(&path, true).unwrap();
        assert_ne!(made, [0; 32]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(secret_key(&path, true).unwrap(), made);
        assert_eq!(secret_key(&path, false).unwrap(), made);
        for mode in [0o640, 0o604, 0o620, 0o602, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = format!("{:#}", secret_key(&path, true).unwrap_err());
            assert!(error.contains("others can"), "{mode:o}: {error}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for wrong in ["", "12", &"g".repeat(DIGITS), &"0".repeat(DIGITS + 1)] {
            fs::write(&path, wrong).unwrap();
            assert!(secret_key(&path, false).is_err(), "{wrong}");
        }
        // A dangling link makes no file elsewhere.
        let link = directory.join("link");
        symlink(directory.join("elsewhere"), &link).unwrap();
        assert!(secret_key(&link, true).is_err());
        assert!(!directory.join("elsewhere").exists());
    }
}
