//! Lists that are signed with Ed25519: the signature as 128 digits, a line end, and the list.

use std::fmt;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use super::{Grants, GrantsError, malformed};
use crate::encoding::{read_hex, write_hex};
use crate::{Error, ErrorKind};

/// What is signed begins so: a signature of something else with the same key is none of a list.
const CONTEXT: &[u8] = b"trueup world grants 1\0";

/// The digits of a signature.
const DIGITS: usize = 2 * Signature::BYTE_SIZE;

/// The operator's public key, with which lists of grants are verified.
#[derive(Clone, PartialEq, Eq)]
pub struct GrantsKey(VerifyingKey);

impl GrantsKey {
    /// Makes it from the bytes of an Ed25519 public key.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the bytes are no public key, or a weak one.
    pub fn new(public_key: &[u8; 32]) -> Result<GrantsKey, Error> {
        let key = VerifyingKey::from_bytes(public_key).ok().filter(|key| !key.is_weak());
        key.map(GrantsKey).ok_or_else(|| {
            let text = "these bytes are no Ed25519 public key, or a weak one";
            Error::new(ErrorKind::Invalid, text)
        })
    }

    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for GrantsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantsKey(")?;
        write_hex(self.as_bytes(), f)?;
        f.write_str(")")
    }
}

impl Grants {
    /// Signs the list with the operator's Ed25519 secret key.
    ///
    /// # Errors
    ///
    /// [`Malformed`](GrantsError::Malformed) if it is longer than
    /// [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn sign(&self, secret_key: &[u8; 32]) -> Result<Vec<u8>, GrantsError> {
        let text = self.to_text()?;
        let signature = SigningKey::from_bytes(secret_key).sign(&message(text.as_bytes()));
        // What cannot be read again is not signed.
        Grants::parse(text.as_bytes())?;
        Ok(format!("{signature:x}\n{text}").into_bytes())
    }

    /// Reads a signed list. It says nothing of whether the list is valid now, and the newest: a
    /// [`GrantsCheck`](crate::GrantsCheck) does.
    ///
    /// # Errors
    ///
    /// [`Forged`](GrantsError::Forged) if it is not signed with this key, or was changed;
    /// [`Malformed`](GrantsError::Malformed).
    pub fn open(signed: &[u8], key: &GrantsKey) -> Result<Grants, GrantsError> {
        let (signature, text) = parts(signed)?;
        // Strict: a signature has one form.
        match key.0.verify_strict(&message(text), &signature) {
            Ok(()) => Grants::parse(text),
            Err(_) => Err(GrantsError::Forged),
        }
    }
}

/// Returns the public key of an Ed25519 secret key.
pub fn grants_public_key(secret_key: &[u8; 32]) -> [u8; 32] {
    SigningKey::from_bytes(secret_key).verifying_key().to_bytes()
}

fn message(text: &[u8]) -> Vec<u8> {
    [CONTEXT, text].concat()
}

fn parts(signed: &[u8]) -> Result<(Signature, &[u8]), GrantsError> {
    if signed.len() > DIGITS + 1 + Grants::MAX_BYTES {
        return Err(malformed("it is too long"));
    }
    let (digits, rest) = signed.split_at_checked(DIGITS).unwrap_or((signed, &[]));
    read_hex(digits)
        .and_then(|bytes| Signature::from_slice(&bytes).ok())
        .zip(rest.strip_prefix(b"\n"))
        .ok_or_else(|| malformed("it does not begin with a signature of 128 digits"))
}
