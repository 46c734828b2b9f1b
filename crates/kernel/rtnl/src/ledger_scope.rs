//! The scope of a ledger: which network namespace it is about, in which boot.

use trueup_netlink::{Namespace, boot_id};
use trueup_reconcile::LedgerScope;

use crate::Error;

/// Returns the scope of the ledgers of `namespace`: its cookie, and the id of this boot.
///
/// A journal opens a ledger by a name and this scope:
/// `journal.ledger("agent", &ledger_scope(&namespace)?)`. Each name in a scope is a ledger of its
/// own. A namespace that is made again, and one after a reboot, has another scope, under which
/// nothing is owned yet.
///
/// # Errors
///
/// When the namespace cannot be opened, or the cookie (Linux 5.14) or the boot's id cannot be read.
pub fn ledger_scope(namespace: &Namespace) -> Result<LedgerScope, Error> {
    Ok(ledger_scope_of(namespace.cookie()?, boot_id()?))
}

/// Returns what [`ledger_scope`] does, for a namespace by its cookie and a boot by its id.
pub fn ledger_scope_of(cookie: u64, boot_id: impl Into<String>) -> LedgerScope {
    LedgerScope::new(cookie.to_string(), boot_id)
}
