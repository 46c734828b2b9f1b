//! A step's faults, with another writer's lines.

use std::sync::Arc;

use super::super::FaultKind;
use super::Run;
use super::check::Stop;
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
                let names = self.machine.names();
                Fault::Invent(act.request(names)?.message.encode(0, 0, 0))
            }
            FaultKind::Writer(act) => {
                let names = self.machine.names().clone();
                let act = act.resolved(&names)?;
                // The fault runs on the pass's thread, so in its namespace.
                Fault::Writer(Arc::new(move || {
                    let ended = act.carry_out(&names);
                    ended.unwrap_or_else(|trouble| panic!("another writer: {}", trouble.message));
                }))
            }
        })
    }
}
