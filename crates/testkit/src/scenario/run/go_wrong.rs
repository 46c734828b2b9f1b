//! What is to go wrong, with what somebody else does on the way.

use std::sync::Arc;

use super::super::machine::Wire;
use super::super::{Act, Mishap};
use super::Run;
use super::differ::Stop;
use crate::faults::Fault;

impl Run<'_> {
    pub(super) fn mishap(&mut self, what: &Mishap) -> Result<Fault, Stop> {
        Ok(match what {
            Mishap::Refuse(errno) => Fault::Refuse(*errno),
            Mishap::LoseAnswer => Fault::LoseAnswer,
            Mishap::DieBefore => Fault::DieBefore,
            Mishap::DieAfter => Fault::DieAfter,
            Mishap::Interrupt => Fault::Interrupt,
            Mishap::LoseRow(n) => Fault::LoseRow(*n),
            Mishap::RepeatRow(n) => Fault::RepeatRow(*n),
            Mishap::SpoilRow(n) => Fault::SpoilRow(*n),
            Mishap::UnknownAttribute => Fault::UnknownAttribute,
            Mishap::Truncate => Fault::Truncate,
            Mishap::Corrupt => Fault::Corrupt,
            Mishap::Overrun => Fault::Overrun,
            Mishap::BreakOff(errno) => Fault::BreakOff(*errno),
            Mishap::Lose => Fault::Lose,
            Mishap::Repeat => Fault::Repeat,
            Mishap::Reverse => Fault::Reverse,
            Mishap::Invent(act) => {
                let act = self.machine.resolved(act)?;
                Fault::Invent(self.machine.wire.unsent(&act.command)?)
            }
            Mishap::Stranger(act) => {
                let Act {
                    command,
                    errno,
                    text,
                    ..
                } = self.machine.resolved(act)?;
                let namespace = self.machine.namespace();
                Fault::Stranger(Arc::new(move || {
                    let ended =
                        Wire::open(&namespace).and_then(|mut wire| wire.carry_out(&command));
                    let ended =
                        ended.unwrap_or_else(|trouble| panic!("stranger: {}", trouble.message));
                    assert_eq!(ended, errno.unwrap_or(0), "stranger's `{text}` ended so");
                }))
            }
        })
    }
}
