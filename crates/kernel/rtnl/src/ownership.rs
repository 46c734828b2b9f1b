//! The ownership of objects: its proof, and the ledger's records.

pub(crate) mod intents;
pub(crate) mod ledger_view;
pub(crate) mod record;
pub(crate) mod record_key;

use std::sync::Arc;

use trueup_net::{Kind, Kinds, Policy};
use trueup_netlink::{Namespace, boot_id};
use trueup_reconcile::LedgerScope;

use crate::{Error, Options, Ownership};

/// Returns the scope of a namespace's ledgers: its cookie, and the id of this boot.
///
/// A journal opens a ledger by a name and this scope:
/// `journal.ledger("agent", &ledger_scope(&namespace)?)`. Each name in a scope is its own ledger. A
/// recreated namespace, or any after a reboot, has another scope, in which no object is ours yet.
///
/// # Errors
///
/// If the namespace cannot be opened, or the cookie (Linux 5.14) or the boot's id cannot be read.
pub fn ledger_scope(namespace: &Namespace) -> Result<LedgerScope, Error> {
    Ok(ledger_scope_of(namespace.cookie()?, boot_id()?))
}

/// Like [`ledger_scope`], with the namespace's cookie and the boot's id as given.
///
/// ```
/// let scope = trueup_rtnl::ledger_scope_of(7, "6d0f1f5c-5d1e-4c4b-8a53-6a1d2c7f9b10");
/// assert_eq!(scope.namespace(), "7");
/// ```
pub fn ledger_scope_of(cookie: u64, boot_id: impl Into<String>) -> LedgerScope {
    LedgerScope::new(cookie.to_string(), boot_id)
}

/// Returns the policy for a kernel that stores no protocol on the `unstored` kinds.
pub(crate) fn policy(unstored: Kinds, options: &Options) -> Result<Policy, Error> {
    let mut by_ledger = unstored;
    // Nexthop objects always go by the marker, which every kernel that has them stores.
    for kind in Kind::DECLARED {
        match options.ownership(kind) {
            Some(Ownership::Ledger) => by_ledger = by_ledger.with(kind),
            Some(Ownership::Marker) if unstored.contains(kind) || !kind.bears_protocol() => {
                return Err(Error::unmarked(kind));
            }
            Some(Ownership::Marker) | None => {}
        }
    }
    Ok(Policy::from(options.protocol())
        .with_by_ledger(by_ledger)
        .with_unstored(unstored)
        .with_adopt(options.adopt())
        .with_adopt_protocols(options.adopt_protocols())
        .with_take(options.take())
        .with_domain(Arc::clone(options.domain()))
        .with_strict(options.strict()))
}
