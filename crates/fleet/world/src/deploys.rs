//! Deploys: numbered file trees, each on top of the one before.

mod chunks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use chunks::named_chunks;

use crate::watch::Decoded;
use crate::world::write;
use crate::{Compare, Entry, Error, ErrorKind, Hash, Watch, WatchConfig, World};

/// A file tree. Its record has the hashes of all content and of the deploy before, so the record's
/// own hash stands for everything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deploy {
    /// The position in the chain of deploys, from 1 on without a gap.
    pub number: u64,
    /// The hash of the deploy's record.
    pub hash: Hash,
    /// The hash of the deploy before. `None` for the first one.
    pub parent: Option<Hash>,
    /// The files, by path within the tree.
    pub files: BTreeMap<String, DeployedFile>,
}

/// A file of a [`Deploy`]: its size and its chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeployedFile {
    /// The length in bytes, at most 256 MiB.
    pub size: u64,
    /// The hashes of the file's chunks, in order.
    pub chunks: Vec<Hash>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    number: u64,
    parent: Option<Hash>,
    files: BTreeMap<String, DeployedFile>,
}

/// The longest file, in bytes. A file is read into memory.
const LONGEST: u64 = 256 << 20;

/// The scheme of a deploy's URI.
const SCHEME: &str = "world:deploy/";

impl Deploy {
    /// Returns the URI of the deploy, or of a file in it. It has the number, the hash and the path.
    pub fn uri(&self, path: &str) -> String {
        format!("{SCHEME}{}/{}/{path}", self.number, self.hash)
    }

    fn parse(number: u64, entry: &Entry) -> Result<Deploy, Error> {
        let record: Result<Record, _> = serde_json::from_slice(&entry.value);
        match record {
            Ok(record) if record.number == number => Ok(Deploy {
                number,
                hash: Hash::of(&entry.value),
                parent: record.parent,
                files: record.files,
            }),
            Ok(record) => Err(broken(number, &format!("its record is of {}", record.number))),
            Err(error) => Err(broken(number, &format!("its record is no such: {error}"))),
        }
    }
}

impl World {
    /// Returns all deploys, the first one first. Checks that each is on top of the one before.
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed) if a deploy is missing or was changed, and the store's
    /// errors.
    pub fn deploys(&self) -> Result<Vec<Deploy>, Error> {
        let (_, entries) = self.store.read(&self.keys.cluster("deploys"), None)?;
        let mut deploys: Vec<Deploy> = Vec::new();
        for entry in entries {
            let number = deploys.len() as u64 + 1;
            if self.deploy_number(&entry.key) != Some(number) {
                return Err(broken(number, "it is missing"));
            }
            let deploy = Deploy::parse(number, &entry)?;
            if deploy.parent != deploys.last().map(|it| it.hash) {
                return Err(broken(number, "it is not on top of the one before"));
            }
            deploys.push(deploy);
        }
        Ok(deploys)
    }

    /// Adds a deploy on top of `parent`, the hash of the newest one. `None` if there is none yet.
    /// Only an operator may.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if another deploy is the newest, or if unused content was
    /// [removed](Self::remove_unused_chunks) meanwhile: look at the newest deploy, and try again.
    /// [`Invalid`](ErrorKind::Invalid) if there are more files than a record holds, or if a file
    /// has more than 256 MiB. Also the store's errors.
    pub fn add_deploy(
        &self,
        parent: Option<Hash>,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Deploy, Error> {
        // Before the deploys are read and the first chunk is written.
        let removed = self.removal_fence()?;
        let deploys = self.deploys()?;
        let kept = named_chunks(&deploys);
        let newest = deploys.last();
        let number = newest.map_or(1, |it| it.number + 1);
        if parent != newest.map(|it| it.hash) {
            return Err(conflict(number - 1));
        }
        let mut record = Record { number, parent, files: BTreeMap::new() };
        if let Some((path, _)) = files.iter().find(|(_, it)| it.len() as u64 > LONGEST) {
            let message = format!("{path}: a file of a deploy has at most {LONGEST} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        for (path, content) in files {
            let file = self.write_chunks(content, &kept)?;
            record.files.insert(path.clone(), file);
        }
        let value = serde_json::to_vec(&record)
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        let key = self.deploy_key(number);
        let mut compares = vec![removed, Compare::Absent(key.clone())];
        if number > 1 {
            // The newest deploy must still exist, because nothing is added on top of a deleted one.
            let newest =
                self.entry(&self.deploy_key(number - 1))?.ok_or_else(|| conflict(number))?;
            compares.push(Compare::Modified(newest.key, newest.modified));
        }
        match self.store.commit(&compares, &[write(&key, Some(value.clone()), None)]) {
            Ok(Some(_)) => {}
            Ok(None) => {
                return Err(match self.entry(&key)? {
                    Some(_) => conflict(number),
                    None => {
                        let message = "unused content was removed meanwhile, which this deploy may \
                                       need: add it again";
                        Error::new(ErrorKind::Conflict, message)
                    }
                });
            }
            Err(error) if error.kind() == ErrorKind::Indeterminate => {
                // The record has everything that was requested.
                if self.entry(&key)?.is_none_or(|it| it.value != value) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(Deploy { number, hash: Hash::of(&value), parent, files: record.files })
    }

    /// Reads a file of a deploy into memory, and checks it against its hashes.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no such file,
    /// [`Malformed`](ErrorKind::Malformed) if its content differs from the deployed one, and the
    /// store's errors.
    pub fn read_file(&self, deploy: &Deploy, path: &str) -> Result<Vec<u8>, Error> {
        let number = deploy.number;
        let file = deploy.files.get(path).ok_or_else(|| {
            let message = format!("deploy {number}: there is no file {path}");
            Error::new(ErrorKind::Invalid, message)
        })?;
        if file.size > LONGEST {
            let why = format!("{path}: has {} bytes, more than {LONGEST}", file.size);
            return Err(broken(number, &why));
        }
        let mut content = Vec::new();
        for chunk in &file.chunks {
            // A record may name a large chunk many times.
            if content.len() as u64 > file.size {
                break;
            }
            let bytes = self.read_chunk(*chunk)?;
            content.extend(bytes.map_err(|why| broken(number, &format!("{path}: {why}")))?);
        }
        if content.len() as u64 != file.size {
            return Err(broken(number, &format!("{path}: has another length")));
        }
        Ok(content)
    }

    /// Reads the file that a URI names. [`Deploy::uri`] makes such URIs.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it is not such a URI, and the errors of
    /// [`read_file`](Self::read_file).
    pub fn read_uri(&self, uri: &str) -> Result<Vec<u8>, Error> {
        let (number, hash, path) = parse_uri(uri).ok_or_else(|| {
            let message = format!("{uri}: is not {SCHEME}<number>/<hash>/<path>");
            Error::new(ErrorKind::Invalid, message)
        })?;
        let entry =
            self.entry(&self.deploy_key(number))?.ok_or_else(|| broken(number, "it is missing"))?;
        let deploy = Deploy::parse(number, &entry)?;
        if deploy.hash != hash {
            return Err(broken(number, "it is another one"));
        }
        self.read_file(&deploy, path)
    }

    /// Watches the deploys, by their numbers.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread. Any other error is an event.
    pub fn watch_deploys(&self, config: WatchConfig) -> Result<Watch<u64, Deploy>, Error> {
        let world = self.clone();
        Watch::new(self, [self.keys.cluster("deploys")], config, move |key, entry| {
            let Some(number) = world.deploy_number(key) else {
                return Decoded::Malformed(None, crate::keys::malformed(key, "a deploy's"));
            };
            Decoded::of(number, entry.map(|it| Deploy::parse(number, it)))
        })
    }

    /// Returns a deploy's key. The number has a fixed width, so that the keys are in numerical
    /// order.
    fn deploy_key(&self, number: u64) -> Vec<u8> {
        let deploys = self.keys.cluster("deploys");
        [deploys, format!("{number:020}").into_bytes()].concat()
    }

    fn deploy_number(&self, key: &[u8]) -> Option<u64> {
        let digits = key.strip_prefix(&self.keys.cluster("deploys")[..])?;
        let number = str::from_utf8(digits).ok()?.parse().ok()?;
        (self.deploy_key(number) == key).then_some(number)
    }
}

/// Returns the number and the hash of a deploy, and the path of a file in it.
fn parse_uri(uri: &str) -> Option<(u64, Hash, &str)> {
    let mut parts = uri.strip_prefix(SCHEME)?.splitn(3, '/');
    let number: u64 = parts.next()?.parse().ok()?;
    Some((number, parts.next()?.parse().ok()?, parts.next()?))
}

fn broken(number: u64, why: &str) -> Error {
    let message = format!("deploy {number}: {why}");
    Error::new(ErrorKind::Malformed, message)
}

fn conflict(newest: u64) -> Error {
    let message = format!("deploy {newest} was added meanwhile; look at it, and add to that");
    Error::new(ErrorKind::Conflict, message)
}
