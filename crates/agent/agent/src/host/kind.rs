//! The sources of a namespace, as the agent runs them.

use std::sync::Arc;

use crate::error::Result;
use trueup_graph::Vertex;
use trueup_loop::Loop;
use trueup_reconcile::{Source as _, Subscribed};

use super::{Desired, Host, Part};
use crate::declared::Declared;
use crate::graph::{OnceMaker, PassVertex};
use crate::section::{Kind, foreign};
use crate::source::{AnyDesired, AnySource, desired_of};
use crate::watch::PartMaker;
use crate::words::with_causes;

/// Rtnetlink and sysctl.
pub(crate) struct HostKind;

impl Kind for HostKind {
    fn parts(&self, _: &Declared, namespace: &Desired) -> Vec<(Part, AnyDesired)> {
        let parts = namespace.clone().parts().into_iter();
        parts.map(|(part, desired)| (part, Arc::new(desired) as AnyDesired)).collect()
    }

    fn make(
        &self,
        maker: &PartMaker,
        part: Part,
        desired: AnyDesired,
    ) -> Result<Box<dyn AnySource>> {
        let desired: Desired = desired_of(desired).ok_or_else(|| foreign(part))?;
        let host = Host::new(part, |of| maker.state.ledger(of), &maker.pass_timer);
        let config = match part {
            Part::Network => maker.config,
            // It sees a new device before the network does, and comes before the addresses on it.
            _ => maker.config.with_debounce(maker.config.debounce() / 2),
        };
        let ledger = maker.state.ledger(part.ledger());
        let (scope, options) = (maker.scope.clone(), maker.options.clone());
        let passes = Loop::new(host, scope, desired, ledger, options, config);
        Ok(maker.finish(reporting(maker, part, passes)))
    }

    fn once(&self, maker: &OnceMaker, part: Part, desired: AnyDesired) -> Option<Box<dyn Vertex>> {
        let desired: Desired = desired_of(desired)?;
        let passed = maker.passed.clone();
        Some(Box::new(PassVertex {
            source: Host::new(part, |of| (maker.ledger)(of), &Arc::default()),
            scope: maker.scope.clone(),
            desired,
            ledger: (maker.ledger)(part.ledger()),
            options: maker.options.clone(),
            on_result: Box::new(move |result| passed.add_of_host(part, result)),
        }))
    }
}

/// Has the passes of a part reported.
fn reporting(maker: &PartMaker, part: Part, passes: Loop<'static, Host>) -> Loop<'static, Host> {
    let (report, shared) = (maker.reporter.clone(), Arc::clone(&maker.shared));
    let pass_timer = Arc::clone(&maker.pass_timer);
    let (loops, drift) = (maker.loops.clone(), maker.reporter.clone());
    let namespace = maker.scope.clone();
    let passes = passes
        .on_report(move |pass| {
            shared.wait_in_force();
            match pass.result {
                Ok(done) => {
                    report.report(part, pass.revision, done);
                    shared.note_missing(&report, done, &namespace);
                    if part == Part::Settings && done.set().next().is_some() {
                        loops.look_at_settings_of_links();
                    }
                }
                Err(error) => {
                    let why = shared.file_error(error).map(|wrong| wrong.to_string());
                    report.failed(part, why.unwrap_or_else(|| with_causes(error)));
                    if Host::is_scope_gone(error) {
                        // No other part goes on without the namespace.
                        loops.stop();
                    }
                }
            }
            pass_timer.end(part);
        })
        .on_drift(move |done| drift.drift(done));
    if part != Part::Network {
        return passes;
    }
    let (overrun, subscription) = (maker.reporter.clone(), maker.reporter.clone());
    passes.on_overrun(move |times| overrun.overrun(times)).on_subscribe(
        move |answer| match answer {
            Subscribed::Active(_) => subscription.subscription(None),
            Subscribed::Unsupported => {}
            Subscribed::Failed(error) => subscription.subscription(Some(error)),
        },
    )
}
