//! A source for your own subsystem, from three functions.
//!
//! To bring a set of keys to declared values, implement [`Backend`]: read the values
//! ([`observe`](Backend::observe)), make one change ([`apply`](Backend::apply)), and classify an
//! error ([`classify`](Backend::classify)). [`Keyed`] turns the backend into a
//! [`Source`](crate::Source). It does the rest in the same way for every backend: ownership and the
//! ledger, recovery after a crash, limits, backoff, verification, statuses, contention, and passes
//! over changed keys alone.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::io;
//!
//! use trueup_reconcile::keyed::{Backend, Change, Entries, Keyed, Keys, Observation};
//! use trueup_reconcile::{ErrorClass, MemoryLedger, PassInput, Report as _, Source as _};
//!
//! /// A panel of dials, which other programs turn too.
//! #[derive(Default)]
//! struct Panel(BTreeMap<String, u8>);
//!
//! impl Backend for Panel {
//!     type Scope = ();
//!     type Key = String;
//!     type Value = u8;
//!     type Error = io::Error;
//!
//!     const KIND: &'static str = "dial";
//!
//!     fn observe(&mut self, _: &(), _: Keys<'_, String>) -> io::Result<Observation<String, u8>> {
//!         Ok(self.0.clone().into())
//!     }
//!
//!     fn apply(&mut self, _: &(), change: &Change<String, u8>) -> io::Result<()> {
//!         match change.to() {
//!             Some(position) => self.0.insert(change.key().clone(), *position),
//!             None => self.0.remove(change.key()),
//!         };
//!         Ok(())
//!     }
//!
//!     fn classify(error: &io::Error) -> ErrorClass {
//!         error.kind().into()
//!     }
//! }
//!
//! let (mut source, mut ledger) = (Keyed::new(Panel::default()), MemoryLedger::default());
//! source.backend_mut().0.insert("gain".to_owned(), 9); // by another program
//! let desired = Entries::from_pairs([("gain".to_owned(), 3), ("tone".to_owned(), 5)])?;
//! let report = source.reconcile(PassInput::new(&(), &desired, &mut ledger, &()))?;
//! assert_eq!(source.backend().0, BTreeMap::from([("gain".into(), 9), ("tone".into(), 5)]));
//! assert_eq!(report.conflicts()[0].foreign, 9); // reported, and not touched
//! assert!(!report.converged());
//!
//! // What is no longer declared goes, if it is ours.
//! source.reconcile(PassInput::new(&(), &Entries::default(), &mut ledger, &()))?;
//! assert_eq!(source.backend().0, BTreeMap::from([("gain".into(), 9)]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If one key needs several objects, or ops depend on each other's order, write a
//! [`Source`](crate::Source) by hand.

mod backend;
mod contention;
mod entries;
mod pass;
mod record;
mod report;
mod source;

pub use backend::{Backend, Change, Events, Keys, Observation, Ownership};
pub use entries::{Entries, Repeated};
pub use report::{Conflict, Finding, Op, Report, Wait};
pub use source::{Error, Keyed};

#[cfg(test)]
mod tests;
