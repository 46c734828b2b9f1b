//! Faults of a step, with another writer's lines.

use std::sync::Arc;

use super::super::machine::Wire;
use super::super::{FaultKind, WriterLine};
use super::Run;
use super::difference::Stop;
use trueup_testkit::faults::Fault;

impl Run<'_> {
    pub(super) fn fault(&mut self, what: &FaultKind) -> Result<Fault, Stop> {
        Ok(match what {
            FaultKind::Refuse(errno) => Fault::Refuse(*errno),
            FaultKind::LoseAnswer => Fault::LoseAnswer,
            FaultKind::DieBefore => Fault::DieBefore,
            FaultKind::DieAfter => Fault::DieAfter,
            FaultKind::Interrupt => Fault::Interrupt,
            FaultKind::LoseRow(n) => Fault::LoseRow(*n),
            FaultKind::RepeatRow(n) => Fault::RepeatRow(*n),
            FaultKind::SpoilRow(n) => Fault::SpoilRow(*n),
            FaultKind::UnknownAttribute => Fault::UnknownAttribute,
            FaultKind::Truncate => Fault::Truncate,
            FaultKind::Corrupt => Fault::Corrupt,
            FaultKind::Overrun => Fault::Overrun,
            FaultKind::BreakOff(errno) => Fault::BreakOff(*errno),
            FaultKind::Lose => Fault::Lose,
            FaultKind::Repeat => Fault::Repeat,
            FaultKind::Reverse => Fault::Reverse,
            FaultKind::Invent(act) => {
                let act = self.machine.resolved(act)?;
                Fault::Invent(self.machine.wire.unsent(&act.command)?)
            }
            FaultKind::Writer(act) => {
                let WriterLine {
                    command,
                    errno,
                    text,
                    ..
                } = self.machine.resolved(act)?;
                let namespace = self.machine.namespace();
                Fault::Writer(Arc::new(move || {
                    let ended =
                        Wire::open(&namespace).and_then(|mut wire| wire.carry_out(&command));
                    let ended = ended
                        .unwrap_or_else(|trouble| panic!("another writer: {}", trouble.message));
                    assert_eq!(
                        ended,
                        errno.unwrap_or(0),
                        "the other writer's `{text}` ended so"
                    );
                }))
            }
        })
    }
}
