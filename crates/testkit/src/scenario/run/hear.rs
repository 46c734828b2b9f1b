//! What an agent does that listens.

use trueup_reconcile::Drained;

use super::super::text::Expected;
use super::super::{FaultLine, INVARIANTS};
use super::differ::Stop;
use super::{Run, converged, still};
use crate::faults::At;

impl Run<'_> {
    /// The agent attends to what it has heard.
    pub(super) fn heard(
        &mut self,
        faults: &[FaultLine],
        expected: Option<&[Expected]>,
    ) -> Result<(), Stop> {
        let (heard, others) = self.drain(faults)?;
        if heard == Drained::Nothing && expected.is_none() {
            let silence = "nothing was heard that matters".to_owned();
            return Err(Stop::Differs(silence));
        }
        self.apply(&others, expected, |agent, house, namespace| {
            agent.answer(house, namespace, heard)
        })
    }

    /// And answers, until nothing more is heard. The faults concern the first time.
    pub(super) fn mended(&mut self, faults: &[FaultLine]) -> Result<(), Stop> {
        const PASSES: usize = 10;
        let mut last = None;
        let mut faults = faults;
        for _ in 0..PASSES {
            let (heard, others) = self.drain(faults)?;
            faults = &[];
            if heard == Drained::Nothing {
                return last.map_or(Ok(()), |got: Vec<_>| converged(&got));
            }
            last = self.pass(&others, |agent, house, namespace| {
                agent.answer(house, namespace, heard)
            })?;
            self.machine.rest()?;
        }
        Err(Stop::Differs(format!(
            "after {PASSES} passes there is still something heard"
        )))
    }

    /// What was heard, and the faults that are not of what was announced.
    fn drain(&mut self, faults: &[FaultLine]) -> Result<(Drained, Vec<FaultLine>), Stop> {
        let (astray, others): (Vec<_>, Vec<_>) = faults
            .iter()
            .cloned()
            .partition(|fault| fault.at == At::Announcements);
        let ears = self.agents.acting().0.ears.as_ref();
        let ears = ears.map(|ears| ears.faults.clone());
        for FaultLine { at, what } in astray {
            let fault = self.mishap(&what)?;
            if let Some(ears) = &ears {
                ears.add(at, fault);
            }
        }
        let heard = self.agents.acting().0.drain();
        if let Some(ears) = ears {
            ears.clear();
        }
        Ok((heard.map_err(Stop::Differs)?, others))
    }

    /// A carrier comes up, an IPv6 address becomes usable: work queues of the kernel's own tell of it, and bear no mark of whom it is
    /// due to.
    pub(super) fn calm(&mut self) -> Result<(), Stop> {
        const LOOKS: usize = 3;
        let namespace = self.namespace();
        for _ in 0..LOOKS {
            let (agent, house) = self.agents.acting();
            let heard = agent.drain().map_err(Stop::Differs)?;
            if heard == Drained::Nothing {
                return Ok(());
            }
            let (got, ops) = agent.answer(house, &namespace, heard);
            let changes = self.machine.announced()?;
            still(&got, ops, changes)?;
        }
        let name = INVARIANTS[2];
        Err(Stop::Differs(format!(
            "invariant 3: {name}\nafter {LOOKS} looks there is still something heard"
        )))
    }
}
