//! A token is valid once and until it expires, even if the journal is deleted, the agent restarted
//! or the clock set back.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use trueup_control::{Approval, Engine, ErrorKind, Fixed, Terms};
use trueup_reconcile::{MemoryLedger, Report as _};

use crate::approval::{SECRET, config, engine, pass_and_token, token, waiting};
use crate::engine::pass;
use crate::world::{Sim, fixed, objects};

fn refused(it: &Engine<Sim, Fixed>, token: &str) -> ErrorKind {
    it.handle().approve(token).unwrap_err().kind()
}

#[test]
fn a_used_token_does_not_pass_again_once_the_journal_was_deleted() {
    let (sim, mut it, mut ledger) = waiting();
    let used = pass_and_token(&sim, &mut it, &mut ledger);
    it.handle().approve(&used).unwrap();
    assert!(pass(&mut it, &mut ledger).converged());
    let before = it.handle().journal_id().unwrap();
    drop(it);
    sim.delete_journal();
    sim.world().objects = objects([("a", "1")]);
    let mut it = engine(&sim, fixed([("a", "2")]));
    pass(&mut it, &mut ledger);
    assert_eq!(refused(&it, &used), ErrorKind::OtherJournal);
    assert!(!pass(&mut it, &mut ledger).converged());
    assert_eq!(sim.world().starts, 1);
    // The request names the journal to sign for.
    let request = it.handle().approvals().remove(0);
    assert_ne!(request.journal, before);
    assert_eq!(request.journal, it.handle().journal_id().unwrap());
    let new = token(&sim, &SECRET, request.hash, 8, 60);
    it.handle().approve(&new).unwrap();
    assert!(pass(&mut it, &mut ledger).converged());
}

#[test]
fn a_token_that_has_expired_does_not_pass_once_the_clock_was_set_back() {
    let (sim, mut it, mut ledger) = waiting();
    let late = pass_and_token(&sim, &mut it, &mut ledger);
    let start = sim.world().now;
    // The agent sees a later time, in a pass.
    sim.advance(61);
    pass(&mut it, &mut ledger);
    sim.world().now = start + 30;
    assert_eq!(refused(&it, &late), ErrorKind::Expired);
    let seen = Duration::from_secs(start + 61);
    assert_eq!(it.handle().approval_time().unwrap(), std::time::UNIX_EPOCH + seen);
    drop(it);
    // The same after a restart.
    let mut it = engine(&sim, fixed([("a", "2")]));
    pass(&mut it, &mut ledger);
    assert_eq!(refused(&it, &late), ErrorKind::Expired);
    assert!(!pass(&mut it, &mut ledger).converged());
    assert_eq!(sim.world().starts, 0);
}

/// Even if little time has passed since the journal noted the time.
#[test]
fn a_token_that_was_refused_as_expired_stays_so() {
    let (sim, mut it, mut ledger) = waiting();
    pass(&mut it, &mut ledger);
    let hash = it.handle().approvals()[0].hash;
    let late = token(&sim, &SECRET, hash, 7, 5);
    let start = sim.world().now;
    sim.advance(5);
    assert_eq!(refused(&it, &late), ErrorKind::Expired);
    drop(it);
    sim.world().now = start;
    sim.reboot();
    let mut it = engine(&sim, fixed([("a", "2")]));
    pass(&mut it, &mut ledger);
    assert_eq!(refused(&it, &late), ErrorKind::Expired);
}

#[test]
fn a_token_that_was_given_expires_by_the_latest_time() {
    let (sim, mut it, mut ledger) = waiting();
    let given = pass_and_token(&sim, &mut it, &mut ledger);
    it.handle().approve(&given).unwrap();
    // The clock is ahead for a moment in which no pass begins the action.
    sim.advance(60);
    assert!(it.handle().approval_time().is_ok());
    sim.world().now -= 60;
    assert!(!pass(&mut it, &mut ledger).converged());
    assert_eq!(sim.world().starts, 0);
}

#[test]
fn a_token_for_a_thousand_years_is_refused() {
    let (sim, mut it, mut ledger) = waiting();
    pass(&mut it, &mut ledger);
    let hash = it.handle().approvals()[0].hash;
    let long = token(&sim, &SECRET, hash, 7, 1000 * 31_557_600);
    assert_eq!(refused(&it, &long), ErrorKind::Lifetime);
    assert!(!pass(&mut it, &mut ledger).converged());
    assert_eq!(sim.world().starts, 0);
}

/// A closed gate needs no time, and an idle agent does not write each time.
#[test]
fn the_time_is_recorded_once_a_minute_at_most_and_only_for_a_gate() {
    let (sim, mut it, mut ledger) = waiting();
    let writes = |it: &mut Engine<Sim, Fixed>, ledger: &mut MemoryLedger| {
        sim.world().steps.clear();
        pass(it, ledger);
        let steps = std::mem::take(&mut sim.world().steps);
        steps.iter().filter(|step| **step == "sync").count()
    };
    assert_ne!(writes(&mut it, &mut ledger), 0);
    for (seconds, is_written) in [(0, false), (59, false), (1, true), (1, false)] {
        sim.advance(seconds);
        assert_eq!(writes(&mut it, &mut ledger) > 0, is_written, "{seconds}");
    }
    drop(it);
    let mut closed = sim.engine(fixed([("a", "2")]));
    sim.advance(3600);
    assert_eq!(writes(&mut closed, &mut ledger), 0);
}

#[derive(Clone, Debug)]
enum Step {
    /// Makes a new token, valid for this many seconds.
    Sign(u64),
    /// Gives the agent one of the earlier tokens, and runs a pass.
    Give(prop::sample::Index),
    /// Gives the agent all earlier tokens, and runs a pass after each.
    GiveAll,
    Clock(u64),
    Restart,
    Reboot,
    DeleteJournal,
    ForgetNonces,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..200u64).prop_map(Step::Sign),
        4 => any::<prop::sample::Index>().prop_map(Step::Give),
        2 => Just(Step::GiveAll),
        3 => (0..400u64).prop_map(Step::Clock),
        1 => Just(Step::Restart),
        1 => Just(Step::Reboot),
        1 => Just(Step::DeleteJournal),
        2 => Just(Step::ForgetNonces),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_token_passes_twice(steps in prop::collection::vec(step(), 1..40)) {
        let (sim, mut it, mut ledger) = waiting();
        pass(&mut it, &mut ledger);
        let mut tokens: Vec<String> = Vec::new();
        let mut used = BTreeSet::new();
        for step in steps {
            let mut given = Vec::new();
            match step {
                Step::Sign(seconds) => {
                    let hash = it.handle().approvals()[0].hash;
                    let nonce = [tokens.len() as u8; 16];
                    let journal = it.handle().journal_id().unwrap();
                    let expires = sim.now() + Duration::from_secs(seconds);
                    let terms = Terms::new(hash, journal, nonce, sim.now(), expires);
                    tokens.push(Approval::sign_with(&SECRET, terms).to_string());
                }
                Step::Give(_) if tokens.is_empty() => {}
                Step::Give(which) => given.push(which.index(tokens.len())),
                Step::GiveAll => given.extend(0..tokens.len()),
                Step::Clock(now) => sim.world().now = 1_000_000 + now,
                Step::Restart | Step::Reboot | Step::DeleteJournal => {
                    drop(it);
                    match step {
                        Step::Reboot => sim.reboot(),
                        Step::DeleteJournal => sim.delete_journal(),
                        _ => {}
                    }
                    it = engine(&sim, fixed([("a", "2")]));
                    pass(&mut it, &mut ledger);
                }
                Step::ForgetNonces => {
                    drop(it);
                    let journal = sim.journal();
                    journal.forget_nonces(sim.now()).unwrap();
                    drop(journal);
                    it = Engine::new(sim.clone(), fixed([("a", "2")]), &sim.journal(), config(&sim))
                        .unwrap();
                    pass(&mut it, &mut ledger);
                }
            }
            for which in given {
                let starts = sim.world().starts;
                let is_taken = it.handle().approve(&tokens[which]).is_ok();
                pass(&mut it, &mut ledger);
                if sim.world().starts > starts {
                    prop_assert!(is_taken, "begun without an approval");
                    prop_assert!(used.insert(which), "{which} passed twice");
                }
                // The same action waits again.
                sim.world().objects = objects([("a", "1")]);
                pass(&mut it, &mut ledger);
            }
        }
    }
}
