//! A section that a user's crate has added, as a part of the agent.

use std::sync::Arc;

use crate::error::{Error, Result};
use trueup_file::{Diagnostic, OwnElement};
use trueup_graph::Vertex;
use trueup_reconcile::{Ledger, PassInput, PassLimits, Source};
use trueup_rtnl::Namespace;

use super::{Kind, Part, Section, SectionId, SectionResult};
use crate::declared::Declared;
use crate::desired::Desired;
use crate::graph::OnceMaker;
use crate::options::Options;
use crate::source::{AnyDesired, AnySource, desired_of};
use crate::watch::PartMaker;

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

    fn owns(&self, part: Part) -> bool {
        self.section().map(Part::Section) == Some(part)
    }

    fn parts(&self, declared: &Declared, _: &Desired) -> Vec<(Part, AnyDesired)> {
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
        Ok(maker.finish(maker.looped(part, self.0.source(), desired, (), |_| {})))
    }

    fn plan(
        &self,
        scope: &Namespace,
        desired: AnyDesired,
        ledger: &mut dyn Ledger,
        _: &Options,
    ) -> Option<SectionResult> {
        let desired: S::Desired = desired_of(desired)?;
        let input = PassInput::new(scope, &desired, ledger, &());
        let input = input.with_limits(PassLimits::default().with_ops(0));
        let report = self.0.source().reconcile(input);
        Some(report.map(|it| Box::new(it) as _).map_err(Error::pass))
    }

    fn once(&self, maker: &OnceMaker, part: Part, desired: AnyDesired) -> Option<Box<dyn Vertex>> {
        let desired: S::Desired = desired_of(desired)?;
        Some(maker.vertex(part, self.0.source(), desired, (), |report| Box::new(report)))
    }
}
