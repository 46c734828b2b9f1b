//! Whose an object is: the records of the ledger, and what proves them.

pub(crate) mod intents;
pub(crate) mod ledger_view;
mod observed_records;
pub(crate) mod policy;
pub(crate) mod record;
pub(crate) mod record_key;
