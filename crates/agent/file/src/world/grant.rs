//! Which host may export a route to which destination.

use std::fmt;
use std::sync::Arc;

use trueup_net::Prefix;

type Allows = dyn Fn(&str, Prefix) -> bool + Send + Sync;

/// Which host may export a route to which destination, as an operator says. Clones share it.
#[derive(Clone)]
pub struct Grant(Arc<Allows>);

impl Grant {
    /// Makes it from a function of the exporter and the destination.
    pub fn new(allows: impl Fn(&str, Prefix) -> bool + Send + Sync + 'static) -> Grant {
        Grant(Arc::new(allows))
    }

    /// True if the host may export a route to the destination.
    pub fn allows(&self, exporter: &str, dst: Prefix) -> bool {
        (self.0)(exporter, dst)
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grant(..)")
    }
}
