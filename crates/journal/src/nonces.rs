//! Nonces: tokens that are spent once, such as approvals. Each is remembered until it expires.

use std::sync::Arc;
use std::time::SystemTime;

use crate::record::{Decoder, Keyspace, MAX_KEY, Transaction, check_len, get};
use crate::retention::millis;
use crate::store::Store;
use crate::{Error, Refusal};

/// The nonces that were spent.
#[derive(Clone, Debug)]
pub struct Nonces {
    store: Arc<Store>,
}

impl Nonces {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Nonces { store }
    }

    /// Spends a nonce that is valid until `expires`. Of all callers that ask, one does.
    ///
    /// To spend it together with the start of an operation, use
    /// [`Start::nonce`](crate::Start::nonce).
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NonceSpent`](Refusal::NonceSpent), or with
    /// [`NonceExpired`](Refusal::NonceExpired) if it has expired at the time `now`, or expires no
    /// later than one that was forgotten; [`Invalid`](crate::ErrorKind::Invalid) if it is empty or
    /// longer than 65536 bytes; otherwise as every write.
    pub fn spend(&self, nonce: &[u8], expires: SystemTime, now: SystemTime) -> Result<(), Error> {
        check(nonce)?;
        let nonce = nonce.to_vec();
        self.store
            .write(move |transaction| spend(transaction, &nonce, expires, now))
    }

    /// Returns true if the nonce was spent, and not forgotten since.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn is_spent(&self, nonce: &[u8]) -> Result<bool, Error> {
        let key = Keyspace::Nonce.key(nonce);
        self.store.read(|records| Ok(get(records, &key)?.is_some()))
    }

    /// Forgets the nonces that have expired at the time `now`, and returns their number. They are
    /// refused as expired from then on, also when the clock is set back.
    ///
    /// # Errors
    ///
    /// As every write.
    pub fn forget(&self, now: SystemTime) -> Result<u64, Error> {
        self.store.write(move |transaction| {
            let mut expired = Vec::new();
            for entry in transaction.scan(&Keyspace::Expiry.key(&[]))? {
                let at_and_nonce = entry?.0;
                if Decoder(&at_and_nonce).u64()? > millis(now) {
                    break;
                }
                expired.push(at_and_nonce);
            }
            for at_and_nonce in &expired {
                let (_, nonce) = at_and_nonce.split_at(8);
                transaction.remove(&Keyspace::Nonce.key(nonce))?;
                transaction.remove(&Keyspace::Expiry.key(at_and_nonce))?;
            }
            if let Some(last) = expired.last() {
                let latest = Decoder(last).u64()?.max(forgotten_until(transaction)?);
                let key = Keyspace::ForgottenUntil.key(&[]);
                transaction.put(&key, &latest.to_be_bytes())?;
            }
            Ok(expired.len() as u64)
        })
    }
}

/// Refuses bytes that cannot be a nonce.
pub(crate) fn check(nonce: &[u8]) -> Result<(), Error> {
    if nonce.is_empty() {
        return Err(Error::invalid("a nonce is empty"));
    }
    check_len("a nonce", nonce, MAX_KEY)
}

/// Spends a nonce, or refuses it and writes nothing.
pub(crate) fn spend(
    transaction: &mut Transaction<'_>,
    nonce: &[u8],
    expires: SystemTime,
    now: SystemTime,
) -> Result<(), Error> {
    let (key, until) = (Keyspace::Nonce.key(nonce), millis(expires));
    if transaction.get(&key)?.is_some() {
        return Err(Error::refused(Refusal::NonceSpent, "cannot spend"));
    }
    // One that was forgotten may have been spent.
    if until <= millis(now).max(forgotten_until(transaction)?) {
        return Err(Error::refused(Refusal::NonceExpired, "cannot spend"));
    }
    let expiry = [&until.to_be_bytes(), nonce].concat();
    transaction.put(&Keyspace::Expiry.key(&expiry), b"")?;
    transaction.put(&key, &until.to_be_bytes())
}

/// Returns the latest expiry of the nonces that were forgotten.
fn forgotten_until(transaction: &Transaction<'_>) -> Result<u64, Error> {
    match transaction.get(&Keyspace::ForgottenUntil.key(&[]))? {
        Some(value) => Decoder(&value).u64(),
        None => Ok(0),
    }
}
