//! The gate: destructive actions wait for an approval, a token for exactly that action and the
//! state of its object.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use trueup_journal::JournalId;
use trueup_reconcile::utc;

use crate::{Action, Error, ErrorKind, Object, Value};

/// Returns true if the signature, the second argument, is the approver's for the message.
type Verifier = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// Decides if a destructive action has an approval. It has no side effects: the engine spends the
/// nonces of tokens in the journal.
///
/// ```
/// use trueup_control::{Action, Gate, Object, Verb};
///
/// let gate = Gate::closed();
/// let destroy = Action::new("vm7", Verb::Destroy);
/// let small = Object::new().with("memory", "1024");
/// // An approval is for one state of the object: a changed object needs another one.
/// assert_ne!(gate.hash(&destroy, Some(&small)), gate.hash(&destroy, None));
/// ```
#[derive(Clone)]
pub struct Gate {
    agent: String,
    verifier: Option<Verifier>,
    max_lifetime: Duration,
}

/// The content of an approval: SHA-256 of the agent's name, the action, and the whole object as
/// observed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionHash([u8; 32]);

/// The terms of an approval. Times count in whole seconds.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// The action with the state of its object.
    pub hash: ActionHash,
    /// The journal that records the token's use: the token is valid with no other.
    pub journal: JournalId,
    /// A random number that makes the token valid once.
    pub nonce: [u8; 16],
    /// The time at which the token was issued.
    pub issued: SystemTime,
    /// The time from which the token is no longer valid.
    pub expires: SystemTime,
}

/// A token as its approver made it: for one action and one journal, once, until it expires.
///
/// Its text is `trueup2.` and hexadecimal digits: the hash, the journal's id, 16 bytes of nonce,
/// the times of issue and expiry in seconds since 1970, and the signature over these.
#[derive(Clone, PartialEq, Eq)]
pub struct Approval {
    terms: Terms,
    signature: Vec<u8>,
}

const PREFIX: &str = "trueup2.";
const DOMAIN: &[u8] = b"trueup-control approval 2\0";
/// The length in bytes of hash, journal, nonce and two times.
const HEAD: usize = 32 + 16 + 16 + 8 + 8;
/// A token's longest lifetime, unless the gate sets another.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// How far the approver's clock may be ahead of the agent's.
const MAX_SKEW: Duration = Duration::from_secs(60);
/// The longest signature, in bytes; none in use is longer.
const MAX_SIGNATURE: usize = 4096;

impl Gate {
    /// Creates a gate that lets no destructive action pass.
    pub fn closed() -> Gate {
        Gate { agent: String::new(), verifier: None, max_lifetime: MAX_LIFETIME }
    }

    /// Creates a gate for the agent with this name. Approvals for other agents are not valid.
    /// `is_signed` returns true if the signature, its second argument, is the approver's for the
    /// message, its first.
    pub fn new(
        agent: impl Into<String>,
        is_signed: impl Fn(&[u8], &[u8]) -> bool + Send + Sync + 'static,
    ) -> Gate {
        Gate {
            agent: agent.into(),
            verifier: Some(Arc::new(is_signed)),
            max_lifetime: MAX_LIFETIME,
        }
    }

    /// Sets a token's longest lifetime, from the time of issue: 24 hours by default. A token with a
    /// longer one is refused.
    #[must_use]
    pub fn with_max_lifetime(mut self, max_lifetime: Duration) -> Gate {
        self.max_lifetime = max_lifetime;
        self
    }

    /// True if no token passes.
    pub(crate) fn is_closed(&self) -> bool {
        self.verifier.is_none()
    }

    /// Returns the hash that an approval of the action must contain; `observed` is the action's
    /// object.
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

    /// Reads a token, and checks its signature, journal and times. `now` must be the latest time
    /// seen: a clock set back would make expired tokens valid.
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed), [`Signature`](ErrorKind::Signature),
    /// [`OtherJournal`](ErrorKind::OtherJournal), [`Expired`](ErrorKind::Expired) or
    /// [`Lifetime`](ErrorKind::Lifetime).
    pub fn check(
        &self,
        token: &str,
        journal: JournalId,
        now: SystemTime,
    ) -> Result<Approval, Error> {
        let approval: Approval = token.trim().parse()?;
        let terms = &approval.terms;
        let message = message(&terms.to_bytes());
        let verifier = self.verifier.as_ref();
        if !verifier.is_some_and(|is_signed| is_signed(&message, &approval.signature)) {
            let text = "the token is not signed by the key of this agent's gate: sign it again";
            return Err(Error::new(ErrorKind::Signature, text));
        }
        if terms.journal != journal {
            let text = format!(
                "the token is for the journal {}, and this agent's is {journal}: approve the \
                 action again, for this one",
                terms.journal
            );
            return Err(Error::new(ErrorKind::OtherJournal, text));
        }
        if terms.expires <= now {
            let text = format!(
                "the token has expired, as the latest time that the agent has seen is {}: approve \
                 the action again",
                utc(now)
            );
            return Err(Error::new(ErrorKind::Expired, text));
        }
        let lifetime = terms.expires.duration_since(terms.issued);
        let is_too_long = lifetime.is_ok_and(|lifetime| lifetime > self.max_lifetime);
        let is_from_later = terms.issued.duration_since(now).is_ok_and(|by| by > MAX_SKEW);
        if is_too_long || is_from_later {
            let text = format!(
                "the token was made at {} and expires at {}: it has to be made by now, which is \
                 {}, and to expire within {} s",
                utc(terms.issued),
                utc(terms.expires),
                utc(now),
                self.max_lifetime.as_secs()
            );
            return Err(Error::new(ErrorKind::Lifetime, text));
        }
        Ok(approval)
    }
}

/// Hashes a value so that an absent one differs from every present one.
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
fn message(terms: &[u8]) -> Vec<u8> {
    [DOMAIN, terms].concat()
}

impl Terms {
    /// Creates the terms of an approval, for the action in the agent's request and the agent's
    /// journal. `nonce` must be random.
    pub fn new(
        hash: ActionHash,
        journal: JournalId,
        nonce: [u8; 16],
        issued: SystemTime,
        expires: SystemTime,
    ) -> Terms {
        Terms {
            hash,
            journal,
            nonce,
            issued: time(seconds(issued)).unwrap_or(issued),
            expires: time(seconds(expires)).unwrap_or(expires),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        [
            &self.hash.0[..],
            self.journal.as_bytes(),
            &self.nonce,
            &seconds(self.issued).to_be_bytes(),
            &seconds(self.expires).to_be_bytes(),
        ]
        .concat()
    }
}

/// Returns the whole seconds since 1970; 0 for an earlier time.
fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}

/// Returns the time `seconds` after 1970; `None` beyond the clock's range.
fn time(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

impl Approval {
    /// Creates a token with these terms. `sign` signs the message.
    pub fn sign(terms: Terms, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> Approval {
        let signature = sign(&message(&terms.to_bytes()));
        Approval { terms, signature }
    }

    fn read(text: &str) -> Option<Approval> {
        let bytes = bytes(text.strip_prefix(PREFIX)?)?;
        let (hash, rest) = bytes.split_first_chunk::<32>()?;
        let (journal, rest) = rest.split_first_chunk::<16>()?;
        let (nonce, rest) = rest.split_first_chunk::<16>()?;
        let (issued, rest) = rest.split_first_chunk::<8>()?;
        let (expires, signature) = rest.split_first_chunk::<8>()?;
        let terms = Terms {
            hash: ActionHash(*hash),
            journal: JournalId::from_bytes(*journal),
            nonce: *nonce,
            issued: time(u64::from_be_bytes(*issued))?,
            expires: time(u64::from_be_bytes(*expires))?,
        };
        Some(Approval { terms, signature: signature.to_vec() })
    }

    /// Returns the terms set by the approver.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the hash of the approved action.
    pub fn hash(&self) -> ActionHash {
        self.terms.hash
    }

    /// Returns the number that makes the token valid once.
    pub fn nonce(&self) -> &[u8; 16] {
        &self.terms.nonce
    }

    /// Returns the time from which the token is no longer valid.
    pub fn expires(&self) -> SystemTime {
        self.terms.expires
    }
}

impl std::str::FromStr for Approval {
    type Err = Error;

    fn from_str(text: &str) -> Result<Approval, Error> {
        Approval::read(text).ok_or_else(|| {
            let message = "this is no token: it begins with trueup2. and has hexadecimal digits";
            Error::new(ErrorKind::Malformed, message)
        })
    }
}

impl std::str::FromStr for ActionHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<ActionHash, Error> {
        let hash = bytes(text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let message = "this is no hash of an action: it has 64 hexadecimal digits";
        hash.map(ActionHash).ok_or_else(|| Error::new(ErrorKind::Malformed, message))
    }
}

/// Reads hexadecimal digits, in lower case only, so that a token has one text.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || digits.len() > 2 * (HEAD + MAX_SIGNATURE) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for ActionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for ActionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats the token for the agent.
impl fmt::Display for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        write_hex(f, &self.terms.to_bytes())?;
        write_hex(f, &self.signature)
    }
}

/// Shows only the approved hash, because a token is a permission.
impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approval").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("hash", &self.hash)
            .field("journal", &self.journal)
            .field("issued", &self.issued)
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
