//! What passes over all parts would do.

use trueup_reconcile::{ErrorClass, Ledger};
use trueup_rtnl::{self as rtnl, Namespace, Rtnl};
use trueup_sysctl::{self as sysctl, Sysctl};

use super::{Desired, Error, Options, Part};
use crate::report::{OpText, Setting};
use crate::state::LedgerOf;

/// The plan of a pass over all parts.
pub struct Planned {
    pub network: rtnl::Planned,
    /// Of each part of the settings. All of their ops are pending.
    pub settings: Vec<(Part, sysctl::Report)>,
}

impl Planned {
    /// Returns the ops of settings.
    pub fn settings(&self) -> impl Iterator<Item = &sysctl::SysctlOp> {
        let reports = self.settings.iter();
        reports.flat_map(|(_, report)| report.ops())
    }

    /// Calls `visit` for each op of settings.
    pub fn settings_text(&self, visit: &mut dyn FnMut(&dyn OpText)) {
        self.settings().for_each(|op| visit(&Setting(op)));
    }

    /// Returns true if the state is as declared, as far as is known.
    pub fn is_converged(&self) -> bool {
        let mut settings = self.settings.iter();
        self.network.is_converged()
            && settings.all(|(_, it)| trueup_reconcile::Report::converged(it))
    }

    /// Returns true if a pass would try nothing, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.network.plan.is_empty() && self.settings().all(is_unread)
    }
}

/// Returns what passes over all parts would do now. Changes nothing. Leaves out the sysctls of
/// links that do not exist yet. `ledger` opens a ledger to read.
///
/// # Errors
///
/// As a pass.
pub fn plan(
    scope: &Namespace,
    desired: &Desired,
    options: &Options,
    ledger: impl Fn(LedgerOf) -> crate::error::Result<Box<dyn Ledger + Send>>,
) -> crate::error::Result<Result<Planned, Error>> {
    let (of_settings, of_network) = (ledger(LedgerOf::Settings)?, ledger(LedgerOf::Network)?);
    let planned = || {
        let parts = desired.clone().parts().into_iter();
        let parts = parts.filter(|(part, _)| part.is_of_settings());
        let settings = parts.filter_map(|(part, desired)| Some((part, desired.settings?)));
        let settings = settings.map(|(part, desired)| {
            let options = &options.settings;
            let planned = Sysctl::new().plan(scope, &desired, &*of_settings, options)?;
            Ok((part, planned))
        });
        let settings = settings.collect::<Result<_, Error>>()?;
        let (declared, options) = (&desired.network, &options.network);
        let network = Rtnl::new().plan(scope, declared, &*of_network, options)?;
        Ok(Planned { network, settings })
    };
    Ok(planned())
}

/// Returns true if the value could not be read, so that it may be as declared.
pub fn is_unread(planned: &sysctl::SysctlOp) -> bool {
    use ErrorClass::{Busy, Permission, Unknown};
    let sysctl::Outcome::Failed(failure) = &planned.outcome else {
        return false;
    };
    matches!(failure.class, Busy | Permission | Unknown)
}
