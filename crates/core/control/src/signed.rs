//! Approvals signed with Ed25519.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::{Approval, Error, ErrorKind, Gate, Terms};

impl Gate {
    /// Creates a gate that accepts tokens signed with this Ed25519 public key.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the bytes are not a public key, or a weak one.
    pub fn signed_by(agent: impl Into<String>, public_key: &[u8; 32]) -> Result<Gate, Error> {
        let key = VerifyingKey::from_bytes(public_key)
            .ok()
            .filter(|key| !key.is_weak())
            .ok_or_else(|| {
                let text = "these bytes are no Ed25519 public key, or a weak one";
                Error::new(ErrorKind::Invalid, text)
            })?;
        // Strict verification: a signature has one form, and weak keys verify nothing.
        Ok(Gate::new(agent, move |message, signature| {
            Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify_strict(message, &signature).is_ok())
        }))
    }
}

impl Approval {
    /// Creates a token with these terms, signed with an approver's Ed25519 secret key.
    pub fn sign_with(secret_key: &[u8; 32], terms: Terms) -> Approval {
        let key = SigningKey::from_bytes(secret_key);
        Approval::sign(terms, |message| key.sign(message).to_bytes().to_vec())
    }
}

/// Returns the public key of an Ed25519 secret key.
pub fn public_key(secret_key: &[u8; 32]) -> [u8; 32] {
    SigningKey::from_bytes(secret_key).verifying_key().to_bytes()
}
