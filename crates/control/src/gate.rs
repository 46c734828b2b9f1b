//! The gate: destructive actions wait for an approval, a token over exactly that action and the
//! state of its object.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};

use crate::{Action, Error, ErrorKind, Object, Value};

/// Checks the signature of a token.
pub trait Verifier: Send + Sync {
    /// Returns true if `signature` is that of the approver over `message`.
    fn is_signed(&self, message: &[u8], signature: &[u8]) -> bool;
}

/// Decides whether a destructive action has an approval. It is pure: the nonces of tokens are spent
/// in the journal, by the engine.
#[derive(Clone)]
pub struct Gate {
    agent: String,
    verifier: Option<Arc<dyn Verifier>>,
}

/// What an approval is over: SHA-256 of the agent's name, the action, and the whole object as
/// observed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionHash([u8; 32]);

/// A token, as its approver made it: for one action, once, until it expires.
///
/// Its text is `trueup1.` and hexadecimal digits: the hash, 16 bytes of nonce, the expiry in
/// seconds since 1970, and the signature over these.
#[derive(Clone, PartialEq, Eq)]
pub struct Approval {
    hash: ActionHash,
    nonce: [u8; 16],
    expires: u64,
    signature: Vec<u8>,
}

const PREFIX: &str = "trueup1.";
const DOMAIN: &[u8] = b"trueup-control approval 1\0";
/// Hash, nonce and expiry.
const HEAD: usize = 32 + 16 + 8;
/// No signature in use is longer.
const MAX_SIGNATURE: usize = 4096;

impl Gate {
    /// Makes a gate that lets no destructive action pass.
    pub fn closed() -> Gate {
        Gate {
            agent: String::new(),
            verifier: None,
        }
    }

    /// Makes a gate of the agent with this name: an approval for one agent is none for another.
    pub fn new(agent: impl Into<String>, verifier: impl Verifier + 'static) -> Gate {
        Gate {
            agent: agent.into(),
            verifier: Some(Arc::new(verifier)),
        }
    }

    /// Returns what an approval of the action has to be over, with its object as observed.
    pub fn hash(&self, action: &Action, observed: Option<&Object>) -> ActionHash {
        let mut hash = Sha256::new();
        hash.update(DOMAIN);
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(self.agent.as_bytes());
        part(action.key.as_bytes());
        part(action.verb.to_string().as_bytes());
        part(&[u8::from(matches!(action.verb, crate::Verb::Other(_)))]);
        part(&(action.changes.len() as u64).to_be_bytes());
        for change in action.all_changes() {
            part(change.field.as_bytes());
            value(&mut part, change.old.as_ref());
            value(&mut part, Some(&change.new));
        }
        match observed {
            None => part(b"absent"),
            Some(object) => {
                part(b"present");
                part(&(object.fields.len() as u64).to_be_bytes());
                for (field, text) in &object.fields {
                    part(field.as_bytes());
                    value(&mut part, Some(text));
                }
                value(&mut part, object.run_state.as_ref());
            }
        }
        ActionHash(hash.finalize().into())
    }

    /// Reads a token, and checks its signature and its expiry.
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed), [`Signature`](ErrorKind::Signature) or
    /// [`Expired`](ErrorKind::Expired).
    pub fn check(&self, token: &str, now: SystemTime) -> Result<Approval, Error> {
        let approval: Approval = token.trim().parse()?;
        let message = message(&approval.hash, &approval.nonce, approval.expires);
        let verifier = self.verifier.as_ref();
        if !verifier.is_some_and(|verifier| verifier.is_signed(&message, &approval.signature)) {
            let text = "the token is not signed by the key of this agent's gate: sign it again";
            return Err(Error::new(ErrorKind::Signature, text));
        }
        if approval.expires() <= now {
            let text = "the token has expired: approve the action again";
            return Err(Error::new(ErrorKind::Expired, text));
        }
        Ok(approval)
    }
}

/// Hashes a value so that an absent one has another hash than any that is there.
fn value(part: &mut impl FnMut(&[u8]), value: Option<&Value>) {
    match value {
        None => part(&[0]),
        Some(value) => {
            part(&[1]);
            part(value.expose().as_bytes());
        }
    }
}

/// Returns the bytes that an approver signs.
fn message(hash: &ActionHash, nonce: &[u8; 16], expires: u64) -> Vec<u8> {
    [DOMAIN, &hash.0, nonce, &expires.to_be_bytes()].concat()
}

impl Approval {
    /// Makes a token for the action with this hash. `nonce` has to be random, `sign` signs the
    /// message. The expiry counts in whole seconds.
    pub fn sign(
        hash: ActionHash,
        nonce: [u8; 16],
        expires: SystemTime,
        sign: impl FnOnce(&[u8]) -> Vec<u8>,
    ) -> Approval {
        let since = expires.duration_since(UNIX_EPOCH).unwrap_or_default();
        let expires = since.as_secs();
        Approval {
            hash,
            nonce,
            expires,
            signature: sign(&message(&hash, &nonce, expires)),
        }
    }

    /// Returns what it is over.
    pub fn hash(&self) -> ActionHash {
        self.hash
    }

    /// Returns what makes it valid once.
    pub fn nonce(&self) -> &[u8; 16] {
        &self.nonce
    }

    /// Returns the time from which it is not valid any more.
    pub fn expires(&self) -> SystemTime {
        let after = Duration::from_secs(self.expires);
        UNIX_EPOCH.checked_add(after).unwrap_or(UNIX_EPOCH)
    }
}

impl std::str::FromStr for Approval {
    type Err = Error;

    fn from_str(text: &str) -> Result<Approval, Error> {
        let malformed = || {
            let message = "this is no token: it begins with trueup1. and has hexadecimal digits";
            Error::new(ErrorKind::Malformed, message)
        };
        let digits = text.strip_prefix(PREFIX).ok_or_else(malformed)?;
        let bytes = bytes(digits).ok_or_else(malformed)?;
        let (hash, rest) = bytes.split_first_chunk::<32>().ok_or_else(malformed)?;
        let (nonce, rest) = rest.split_first_chunk::<16>().ok_or_else(malformed)?;
        let (expires, signature) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
        Ok(Approval {
            hash: ActionHash(*hash),
            nonce: *nonce,
            expires: u64::from_be_bytes(*expires),
            signature: signature.to_vec(),
        })
    }
}

impl std::str::FromStr for ActionHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<ActionHash, Error> {
        let hash = bytes(text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let message = "this is no hash of an action: it has 64 hexadecimal digits";
        hash.map(ActionHash)
            .ok_or_else(|| Error::new(ErrorKind::Malformed, message))
    }
}

/// Reads hexadecimal digits: lower case only, so that a token has one text.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if !digits.len().is_multiple_of(2) || digits.len() > 2 * (HEAD + MAX_SIGNATURE) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl fmt::Display for ActionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for ActionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats the token, to give it to the agent.
impl fmt::Display for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [&self.hash.0[..], &self.nonce, &self.expires.to_be_bytes()].concat();
        write!(f, "{PREFIX}{}{}", hex(&head), hex(&self.signature))
    }
}

/// A token is a permission, so only what it is over is shown.
impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approval")
            .field("hash", &self.hash)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("agent", &self.agent)
            .field("is_closed", &self.verifier.is_none())
            .finish()
    }
}
