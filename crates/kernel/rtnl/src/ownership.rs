//! Whose an object is: what proves it, and the records of the ledger.

pub(crate) mod intents;
pub(crate) mod ledger_view;
pub(crate) mod record;
pub(crate) mod record_key;

use std::sync::Arc;

use trueup_net::{Kind, Kinds, Policy};
use trueup_netlink::{Namespace, boot_id};
use trueup_reconcile::LedgerScope;

use crate::{Error, Options, Ownership};

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

/// Returns what proves objects to be ours, on a kernel that stores no protocol on some kinds.
pub(crate) fn policy(unstored: Kinds, options: &Options) -> Result<Policy, Error> {
    let mut by_ledger = unstored;
    // Of nexthop objects it is the marker: every kernel that has them keeps it.
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
