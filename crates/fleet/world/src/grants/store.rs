//! The list of grants in the store.

use std::time::SystemTime;

use super::{Grants, GrantsCheck, GrantsError};
use crate::watch::Decoded;
use crate::{Error, ErrorKind, Watch, WatchConfig, World};

impl World {
    /// Returns the store's signed list of grants, unverified. `None` if there is none.
    pub fn signed_grants(&self) -> Result<Option<Vec<u8>>, Error> {
        let entry = self.entry(&self.keys.grants())?;
        Ok(entry.map(|entry| entry.value))
    }

    /// Reads the list of grants, and checks that it is the operator's, valid now, and not older
    /// than one seen before. `record` is the callback of [`GrantsCheck::verify`].
    ///
    /// # Errors
    ///
    /// The errors of [`GrantsCheck::verify`] and [`Grants::check_time`], and the store's errors.
    pub fn grants(
        &self,
        check: &mut GrantsCheck,
        now: SystemTime,
        record: impl FnOnce(&str) -> Result<(), Error>,
    ) -> Result<Grants, GrantsError> {
        let signed = self.signed_grants().map_err(GrantsError::Store)?;
        let grants = check.verify(signed.as_deref(), record)?;
        grants.check_time(now)?;
        Ok(grants)
    }

    /// Puts a signed list of grants in force for all readers. Only an operator may.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the list is not signed with the key of `check`, or is not
    /// valid now. [`Conflict`](ErrorKind::Conflict) if the store has a newer list, or a different
    /// one with the same serial number. Also the store's errors.
    pub fn put_grants(
        &self,
        signed: &[u8],
        check: &GrantsCheck,
        now: SystemTime,
    ) -> Result<bool, Error> {
        let grants = check
            .open(signed)
            .and_then(|grants| grants.check_time(now).map(|()| grants))
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        self.update(&self.keys.grants(), None, |entry| {
            // A list that is not the operator's is replaced.
            let there = entry.and_then(|it| Some((&it.value, check.open(&it.value).ok()?)));
            match there {
                Some((value, there)) if there.serial() >= grants.serial() && value != signed => {
                    let message = format!(
                        "the store has the list of grants {}: sign this one with a higher serial \
                         number",
                        there.serial()
                    );
                    Err(Error::new(ErrorKind::Conflict, message))
                }
                _ => Ok(Some(signed.to_vec())),
            }
        })
    }

    /// Watches the signed list of grants, unverified.
    pub(super) fn watch_signed_grants(
        &self,
        config: WatchConfig,
    ) -> Result<Watch<(), Vec<u8>>, Error> {
        let own = self.keys.grants();
        Watch::new(self, [own.clone()], config, move |key, entry| match entry {
            _ if key != own => Decoded::Other,
            None => Decoded::Gone(()),
            Some(entry) => Decoded::Value((), entry.value.clone()),
        })
    }
}
