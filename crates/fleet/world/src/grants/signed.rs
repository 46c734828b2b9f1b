//! Lists signed with Ed25519: the signature as 128 digits, a line end, and the list.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use super::{Grants, GrantsError, malformed};
use crate::hash::read_hex;

/// The start of each signed message, so that no signature of other data with this key fits a list.
const CONTEXT: &[u8] = b"trueup world grants 1\0";

/// The number of digits of a signature.
const DIGITS: usize = 2 * Signature::BYTE_SIZE;

impl Grants {
    /// Signs the list with the operator's Ed25519 secret key.
    ///
    /// # Errors
    ///
    /// [`Malformed`](GrantsError::Malformed) if the list is longer than
    /// [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn sign(&self, secret_key: &[u8; 32]) -> Result<Vec<u8>, GrantsError> {
        let text = self.to_text()?;
        let signature = SigningKey::from_bytes(secret_key).sign(&message(text.as_bytes()));
        // Signs only a list that can be read again.
        Grants::parse(text.as_bytes())?;
        Ok(format!("{signature:x}\n{text}").into_bytes())
    }

    /// Reads a list, and verifies its signature with the operator's key.
    pub(super) fn open(signed: &[u8], key: &VerifyingKey) -> Result<Grants, GrantsError> {
        let (signature, text) = parts(signed)?;
        // Strict: a signature has one form.
        match key.verify_strict(&message(text), &signature) {
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
