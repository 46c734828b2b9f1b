//! The pass.

use std::collections::{BTreeMap, HashSet};

use trueup_apply::{Outcome, apply};
use trueup_diff::{
    Action, AddressKey, Desired, Dev, Devices, IfName, NeighbourKey, ObjectKey, Observed, Op,
};
use trueup_netlink::{Namespace, Socket};
use trueup_observe::{Scope, Snapshot, snapshot};
use trueup_reconcile::{Observation, Source};

use crate::ledger::record;
use crate::look::{self, Planned};
use crate::report::Round;
use crate::{Error, LastApplied, Options, Report};

/// How often a pass goes over what its own ops took away, at most.
const ROUNDS: usize = 3;

/// The rtnetlink source. It keeps nothing between passes: each opens its socket anew, so that a
/// namespace that was recreated under its old name is met as what it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtnl;

impl Rtnl {
    /// What a pass would do now. Changes nothing.
    ///
    /// # Errors
    ///
    /// As [`Source::reconcile`].
    pub fn plan(
        &self,
        scope: &Namespace,
        desired: &Desired,
        last_applied: &LastApplied,
        options: &Options,
    ) -> Result<Planned, Error> {
        let mut socket = Socket::open(scope)?;
        let looked = look::first(&mut socket, desired, last_applied, options.protocol())?;
        Ok(looked.0)
    }
}

impl Source for Rtnl {
    type Scope = Namespace;
    type Desired = Desired;
    type LastApplied = LastApplied;
    type Options = Options;
    type Report = Report;
    type Observed = Snapshot;
    type Error = Error;
    type Subscription = ();

    fn reconcile(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        last_applied: &LastApplied,
        options: &Options,
    ) -> Result<Report, Error> {
        let mut socket = Socket::open(scope)?;
        let marker = options.protocol();
        let (mut planned, mut owned) = look::first(&mut socket, desired, last_applied, marker)?;
        let mut names = names(&planned.observed);
        let mut rounds = Vec::new();
        // What failed or waits is not tried again in the same pass.
        let mut spent = HashSet::new();
        let mut trouble = None;
        loop {
            if rounds.len() == ROUNDS {
                break;
            }
            let Planned {
                plan,
                observed,
                doubts,
            } = planned;
            let fresh = |op: &Op| !spent.contains(&identity(op, &plan.devices));
            if !plan.ops.iter().any(fresh) {
                planned = Planned {
                    plan,
                    observed,
                    doubts,
                };
                break;
            }
            // The observation can be large, and what is read next takes its place.
            drop(observed);
            let plan = if spent.is_empty() {
                plan
            } else {
                let devices = plan.devices.clone();
                plan.retain(|op| !spent.contains(&identity(op, &devices)))
            };
            let outcomes = apply(&plan, &mut socket);
            let real = |dev: Dev| {
                dev.as_index()
                    .or_else(|| outcomes.created.get(&dev).copied())
                    .map(Dev::index)
            };
            for (op, outcome) in plan.ops.iter().zip(&outcomes.outcomes) {
                if *outcome == Outcome::Applied {
                    record(&mut owned, op, &plan.devices, real);
                } else {
                    spent.insert(identity(op, &plan.devices));
                }
            }
            for (dev, index) in &outcomes.created {
                names.extend(plan.devices.name(*dev).map(|name| (*index, *name)));
            }
            rounds.push(Round { plan, outcomes });
            match look::again(&mut socket, desired, &owned, marker) {
                Ok(seen) => planned = seen,
                Err(error) => {
                    // Something was changed, so what is ours now must be told all the same.
                    trouble = Some(error.to_string());
                    planned = Planned {
                        plan: Default::default(),
                        observed: Observed::default(),
                        doubts: Vec::new(),
                    };
                    break;
                }
            }
            names.extend(self::names(&planned.observed));
        }
        let converged = trouble.is_none() && planned.is_converged();
        let last_applied = match trouble {
            Some(_) => LastApplied::carried(&owned, &names),
            None => LastApplied::from_read_back(&owned, &planned.observed),
        };
        Ok(Report {
            converged,
            rounds,
            conflicts: planned.plan.conflicts,
            devices: planned.plan.devices,
            doubts: planned.doubts,
            trouble,
            last_applied,
        })
    }

    fn observe(
        &mut self,
        scope: &Namespace,
        _options: &Options,
    ) -> Result<Observation<Snapshot>, Error> {
        let mut socket = Socket::open(scope)?;
        Ok(Observation::Seen(snapshot(&mut socket, &Scope::whole())?))
    }
}

/// What an op is about, told so that the plans of one pass agree on it: a device by its name, as one
/// that is to be created has another number in each plan, and an index once it is there.
fn identity(op: &Op, devices: &Devices) -> (Action, ObjectKey, Option<IfName>) {
    let mut key = op.object.key();
    let mut name = None;
    if let ObjectKey::Address(AddressKey { dev, .. })
    | ObjectKey::Neighbour(NeighbourKey { dev, .. }) = &mut key
    {
        name = devices.name(*dev).copied();
        if name.is_some() {
            *dev = Dev::index(0);
        }
    }
    (op.action, key, name)
}

fn names(observed: &Observed) -> BTreeMap<u32, IfName> {
    observed
        .links
        .iter()
        .map(|link| (link.index, link.name))
        .collect()
}
