//! Benchmarks of the trueup family.
