//! The steps of a subscribed agent: `drain`, `converge` and `idle`.

use trueup_reconcile::Drained;

use super::super::text::Expected;
use super::super::{FaultLine, INVARIANTS};
use super::check::Stop;
use super::{Run, assert_no_op, converged};
use trueup_testkit::faults::At;

impl Run<'_> {
    /// Drains, and makes one pass if something is dirty.
    pub(super) fn drain_and_pass(
        &mut self,
        faults: &[FaultLine],
        expected: Option<&[Expected]>,
    ) -> Result<(), Stop> {
        let (drained, others) = self.drain(faults)?;
        if drained == Drained::Nothing && expected.is_none() {
            let quiet = "no key is dirty".to_owned();
            return Err(Stop::Differs(quiet));
        }
        self.apply(&others, expected, |agent, host, namespace| {
            agent.pass_after_drain(host, namespace, drained)
        })
    }

    /// Drains and makes passes until nothing is dirty. The faults apply to the first drain.
    pub(super) fn converge(&mut self, faults: &[FaultLine]) -> Result<(), Stop> {
        const PASSES: usize = 10;
        let mut last = None;
        let mut faults = faults;
        for _ in 0..PASSES {
            let (drained, others) = self.drain(faults)?;
            faults = &[];
            if drained == Drained::Nothing {
                return last.map_or(Ok(()), |got: Vec<_>| converged(&got));
            }
            last = self.pass(&others, |agent, host, namespace| {
                agent.pass_after_drain(host, namespace, drained)
            })?;
            self.machine.wait_until_settled();
        }
        Err(Stop::Differs(format!("after {PASSES} passes there are still dirty keys")))
    }

    /// Drains with the faults of announcements; returns the other faults.
    fn drain(&mut self, faults: &[FaultLine]) -> Result<(Drained, Vec<FaultLine>), Stop> {
        let (astray, others): (Vec<_>, Vec<_>) =
            faults.iter().cloned().partition(|fault| fault.at == At::Announcements);
        for FaultLine { at, kind } in astray {
            let fault = self.fault(&kind)?;
            self.faults.add(at, fault);
        }
        let drained = self.agents.acting().0.drain();
        self.faults.clear();
        Ok((drained.map_err(Stop::Differs)?, others))
    }

    /// Waits for the late announcements of the kernel's work queues: a carrier comes up, or an IPv6
    /// address becomes usable. They do not name the write that caused them.
    pub(super) fn idle(&mut self) -> Result<(), Stop> {
        const PASSES: usize = 3;
        let namespace = self.namespace();
        for _ in 0..PASSES {
            let (agent, host) = self.agents.acting();
            let drained = agent.drain().map_err(Stop::Differs)?;
            if drained == Drained::Nothing {
                return Ok(());
            }
            let (got, ops) = agent.pass_after_drain(host, &namespace, drained);
            let changes = self.machine.announced();
            assert_no_op(&got, ops, changes)?;
        }
        let name = INVARIANTS[2];
        Err(Stop::Differs(format!(
            "invariant 3: {name}\nafter {PASSES} passes there are still dirty keys"
        )))
    }
}
