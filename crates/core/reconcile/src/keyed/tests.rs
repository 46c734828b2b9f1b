//! Tests of keyed sources on a model of a subsystem: a property under faults, and single promises.

mod model;
mod promises;
mod property;
