//! The records of an earlier boot about a named namespace. Its cookie, which is part of the
//! journal's name, has changed since. A small file beside the journals has the cookie, by the name.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Context as _, Result};
use trueup_journal::{Journal, JournalLedger};
use trueup_path::{TrustedUsers, read};
use trueup_reconcile::{Claim, Ledger as _, LedgerError};

use super::{LedgerOf, NamespaceKey, State, StateFile};

/// The ledgers whose records can outlive a boot.
const LASTING: [LedgerOf; 2] = [LedgerOf::Graph, LedgerOf::World];

/// The longest name, in bytes, of a namespace whose records outlive a boot: it is a part of a
/// file's name.
const MAX_NAME: usize = 128;

/// The most bytes to read of the cookie's file. A cookie has fewer digits.
const MAX_COOKIE: u64 = 64;

impl StateFile {
    /// Returns the path of the file with the namespace's cookie. `None` if the namespace has no
    /// name, or one that is too long.
    fn cookie_file(&self) -> Option<PathBuf> {
        let name = self.namespace.name.as_ref().filter(|name| name.len() <= MAX_NAME)?;
        // The name of a domain has no colon.
        let file = format!("name-{}:{name}.cookie", self.agent);
        Some(self.directory.join(file))
    }

    /// Returns the journal that had the namespace's records last, if it is not this one.
    fn earlier(&self) -> Result<Option<StateFile>> {
        let Some(path) = self.cookie_file() else {
            return Ok(None);
        };
        let opened = TrustedUsers::current()
            .and_then(|users| users.place(&path))
            .and_then(|place| place.open());
        let file = match opened {
            Err(error) if error.is_not_found() => return Ok(None),
            Ok(None) => return Ok(None),
            Ok(Some(file)) => file,
            Err(error) => return Err(error.into()),
        };
        let text = read(&path, &file, MAX_COOKIE)?;
        let cookie = str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
        let cookie =
            cookie.with_context(|| format!("{}: is no cookie: remove it", path.display()))?;
        let namespace = NamespaceKey { cookie, name: self.namespace.name.clone() };
        let is_other = cookie != self.namespace.cookie;
        Ok(is_other.then(|| StateFile { namespace, ..self.clone() }))
    }

    /// Records that this journal has the namespace's records.
    pub(crate) fn note_cookie(&self) -> Result<()> {
        let Some(path) = self.cookie_file() else {
            return Ok(());
        };
        let place = TrustedUsers::current()?.place(&path)?;
        let (old, text) = (place.open()?, format!("{}\n", self.namespace.cookie));
        if let Some(old) = &old
            && read(&path, old, MAX_COOKIE).is_ok_and(|known| known == text.as_bytes())
        {
            return Ok(());
        }
        let mut new = place.replacement(0o600)?;
        let written = new.file().write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(new.publish(old.as_ref())?)
    }

    /// Returns a ledger of an earlier boot for reading, if there is one.
    pub(crate) fn earlier_ledger(
        &self,
        of: LedgerOf,
        boot_id: &str,
    ) -> Result<Option<JournalLedger>> {
        let Some(earlier) = self.earlier()? else {
            return Ok(None);
        };
        let journal = Journal::open_read_only(earlier.file())?;
        self.ledger(of, &journal, boot_id).map(Some)
    }
}

impl State {
    /// Moves the records of an earlier boot to this journal. If another process has the earlier
    /// journal open, its namespace has lost its name and keeps its records. Fails if this journal
    /// cannot be written.
    pub(crate) fn take_over_earlier(&self, sections: impl Iterator<Item = LedgerOf>) -> Result<()> {
        let (place, boot_id) = (&self.place, &self.boot_id);
        let Some(earlier) = place.earlier()? else {
            return Ok(());
        };
        let Ok(journal) = Journal::open_within(earlier.file(), Duration::ZERO) else {
            return Ok(());
        };
        let mut left = Vec::new();
        for of in LASTING.into_iter().chain(sections.filter(|of| of.is_lasting())) {
            let from = place.ledger(of, &journal, boot_id)?;
            self.with(|opened| {
                let ours = opened.of(of)?;
                let (mut intents, mut owned) = (from.open_intents()?, from.owned()?);
                let (known, open) = (ours.owned()?, ours.open_intents()?);
                owned.retain(|key, _| !known.contains_key(key));
                intents.retain(|key, _| !known.contains_key(key) && !open.contains_key(key));
                let claims = owned.into_iter().map(|(key, value)| (key, Claim::Ours(value)));
                ours.commit_outcomes(claims.collect())?;
                ours.begin(intents)
            })?;
            left.push(from);
        }
        // Only now, so that a crash in between loses nothing.
        place.note_cookie()?;
        for from in left {
            from.forget().map_err(LedgerError::new)?;
        }
        Ok(())
    }
}
