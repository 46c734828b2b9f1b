//! A section that a user's crate has added, as a part of the agent.

use std::sync::Arc;

use crate::error::Result;
use trueup_file::{Diagnostic, OwnElement};
use trueup_graph::Vertex;
use trueup_loop::Loop;
use trueup_reconcile::{Ledger, PassInput, PassLimits, Source};
use trueup_rtnl::Namespace;

use super::{Kind, Section, SectionId, SectionResult};
use crate::declared::Declared;
use crate::graph::{OnceMaker, PassVertex};
use crate::host::{self, Part};
use crate::report::PassReport;
use crate::source::{AnyDesired, AnySource, desired_of};
use crate::watch::PartMaker;
use crate::words::with_causes;

pub(super) struct Own<S>(pub(super) S);

impl<S: Section> Kind for Own<S> {
    fn section(&self) -> Option<SectionId> {
        Some(SectionId {
            name: self.0.name(),
            outlives_boots: self.0.outlives_boots(),
            is_after_network: self.0.is_after_network(),
        })
    }

    fn parse(&self, elements: &[OwnElement]) -> Result<Option<AnyDesired>, Vec<Diagnostic>> {
        Ok(Some(Arc::new(self.0.parse(elements)?)))
    }

    fn parts(&self, declared: &Declared, _: &host::Desired) -> Vec<(Part, AnyDesired)> {
        let desired = declared.own.get(self.0.name()).cloned();
        self.section().map(Part::Section).zip(desired).into_iter().collect()
    }

    fn make(
        &self,
        maker: &PartMaker,
        part: Part,
        desired: AnyDesired,
    ) -> Result<Box<dyn AnySource>> {
        let desired: S::Desired = desired_of(desired).ok_or_else(|| super::foreign(part))?;
        let (scope, ledger) = (maker.scope.clone(), maker.state.ledger(part.ledger()));
        let passes = Loop::new(self.0.source(), scope, desired, ledger, (), maker.config);
        let (reporter, drift, loops) =
            (maker.reporter.clone(), maker.reporter.clone(), maker.loops.clone());
        let shared = Arc::clone(&maker.shared);
        let passes = passes
            .on_report(move |pass| {
                shared.wait_in_force();
                match pass.result {
                    Ok(done) => reporter.report(part, pass.revision, done),
                    Err(error) => {
                        reporter.failed(part, with_causes(error));
                        if S::Source::is_scope_gone(error) {
                            loops.stop();
                        }
                    }
                }
            })
            .on_drift(move |done| drift.drift(done));
        Ok(maker.finish(passes))
    }

    fn plan(
        &self,
        scope: &Namespace,
        desired: AnyDesired,
        ledger: &mut dyn Ledger,
    ) -> Option<SectionResult> {
        let desired: S::Desired = desired_of(desired)?;
        let input = PassInput::new(scope, &desired, ledger, &());
        let input = input.with_limits(PassLimits::default().with_ops(0));
        let report = self.0.source().reconcile(input);
        let report = report.map(|report| Box::new(report) as Box<dyn PassReport>);
        Some(report.map_err(|error| with_causes(&error)))
    }

    fn once(&self, maker: &OnceMaker, part: Part, desired: AnyDesired) -> Option<Box<dyn Vertex>> {
        let desired: S::Desired = desired_of(desired)?;
        let passed = maker.passed.clone();
        Some(Box::new(PassVertex {
            source: self.0.source(),
            scope: maker.scope.clone(),
            desired,
            ledger: (maker.ledger)(part.ledger()),
            options: (),
            on_result: Box::new(move |result| {
                let result = result.map(|report| Box::new(report) as Box<dyn PassReport>);
                passed.add(part, result.map_err(|error| with_causes(&error)));
            }),
        }))
    }
}
