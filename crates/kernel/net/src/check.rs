//! What can be wrong with a desired object by itself.

/// A desired object that can be checked by itself.
pub(crate) trait Check {
    /// Refuses what the kernel would refuse whatever the state, and what it would store as
    /// something else, so that no pass could converge.
    fn check(&self) -> Result<(), &'static str>;
}

/// Refuses with `otherwise` what does not hold.
pub(crate) fn must(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

#[cfg(test)]
mod tests;
