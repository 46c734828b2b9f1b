//! Destructive actions and their approvals, with an engine.

use std::time::Duration;

use trueup_control::{
    ActionHash, Approval, ApprovalRequest, Config, Engine, ErrorClass, ErrorKind, Fixed, Gate,
    JobState, Outcome, Pending, Terms, Wait, public_key,
};
use trueup_reconcile::{MemoryLedger, Report as _};

use crate::engine::pass;
use crate::world::{Mode, Sim, fixed, objects, snapshot};

pub(crate) const SECRET: [u8; 32] = [1; 32];

pub(crate) fn config(sim: &Sim) -> Config {
    let gate = Gate::signed_by("host a", &public_key(&SECRET)).unwrap();
    sim.config().with_gate(gate)
}

pub(crate) fn engine(sim: &Sim, desired: Fixed) -> Engine<Sim, Fixed> {
    Engine::new(sim.clone(), desired, &sim.journal(), config(sim)).unwrap()
}

/// Returns a token made now, for the simulation's journal.
pub(crate) fn token(
    sim: &Sim,
    secret: &[u8; 32],
    hash: ActionHash,
    nonce: u8,
    seconds: u64,
) -> String {
    let expires = sim.now() + Duration::from_secs(seconds);
    let terms = Terms::new(hash, sim.journal_id(), [nonce; 16], sim.now(), expires);
    Approval::sign_with(secret, terms).to_string()
}

/// Returns an engine that should change the object `a`, which is destructive, and its ledger.
pub(crate) fn waiting() -> (Sim, Engine<Sim, Fixed>, MemoryLedger) {
    let sim = destructive([("a", "1")]);
    let it = engine(&sim, fixed([("a", "2")]));
    (sim, it, MemoryLedger::default())
}

/// Runs a pass. Returns the token for the action that waits after it.
pub(crate) fn pass_and_token(
    sim: &Sim,
    it: &mut Engine<Sim, Fixed>,
    ledger: &mut MemoryLedger,
) -> String {
    pass(it, ledger);
    let hash = it.handle().approvals()[0].hash;
    token(sim, &SECRET, hash, 7, 60)
}

fn request_of(state: JobState) -> Box<ApprovalRequest> {
    match state {
        JobState::NeedsApproval(request) => request,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn destructive(objects: [(&str, &str); 1]) -> Sim {
    let sim = Sim::new();
    sim.world().objects = crate::world::objects(objects);
    sim.world().is_benign = false;
    sim
}

#[test]
fn a_destructive_action_waits_and_a_token_lets_it_pass_once() {
    let (sim, mut it, mut ledger) = waiting();
    let report = pass(&mut it, &mut ledger);
    let Outcome::Pending(Pending::Own(Wait::Approval { hash, .. })) = report.ops()[0].outcome
    else {
        panic!("{report:?}")
    };
    assert_eq!(report.requeue_after(), None);
    let approvals = it.handle().approvals();
    assert_eq!((approvals[0].hash, &approvals[0].action), (hash, &report.ops()[0].action));
    let right = token(&sim, &SECRET, hash, 7, 60);
    it.handle().approve(&right).unwrap();
    assert!(pass(&mut it, &mut ledger).converged());
    assert!(it.handle().approvals().is_empty());

    // The same action in the same state waits again, even after a restart: the token was used.
    for _ in 0..2 {
        sim.world().objects = objects([("a", "1")]);
        pass(&mut it, &mut ledger);
        let error = it.handle().approve(&right).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Spent);
        assert!(!pass(&mut it, &mut ledger).converged());
        drop(it);
        it = engine(&sim, fixed([("a", "2")]));
    }
    assert_eq!(sim.world().starts, 1);
    pass(&mut it, &mut ledger);
    it.handle().approve(&token(&sim, &SECRET, hash, 8, 60)).unwrap();
    assert!(pass(&mut it, &mut ledger).converged());
}

#[test]
fn an_action_that_was_refused_can_be_approved_before_it_is_tried_again() {
    let (sim, mut it, mut ledger) = waiting();
    sim.world().mode = Mode::Refuses(ErrorClass::Busy);
    let mut approve = |it: &mut Engine<Sim, Fixed>, nonce| {
        pass(it, &mut ledger);
        let hash = it.handle().approvals()[0].hash;
        it.handle().approve(&token(&sim, &SECRET, hash, nonce, 60)).unwrap();
        pass(it, &mut ledger)
    };
    let report = approve(&mut it, 1);
    assert!(matches!(report.ops()[0].outcome, Outcome::Failed(_)));
    // It asks for approval at once, and waits for its turn with the token.
    sim.world().mode = Mode::Done;
    let report = approve(&mut it, 2);
    let Outcome::Pending(Pending::Own(Wait::Retry(_))) = report.ops()[0].outcome else {
        panic!("{report:?}")
    };
    sim.advance(1);
    assert!(pass(&mut it, &mut ledger).converged());
}

#[test]
fn an_approved_state_that_has_changed_is_not_approved() {
    let (sim, mut it, mut ledger) = waiting();
    let right = pass_and_token(&sim, &mut it, &mut ledger);
    it.handle().approve(&right).unwrap();
    sim.world().objects = objects([("a", "3")]);
    assert!(!pass(&mut it, &mut ledger).converged());
    assert_eq!(it.handle().approve(&right).unwrap_err().kind(), ErrorKind::NotWaiting);
    // Back in the approved state, the token is valid: it was not spent.
    sim.world().objects = objects([("a", "1")]);
    pass(&mut it, &mut ledger);
    it.handle().approve(&right).unwrap();
    sim.advance(60);
    assert!(!pass(&mut it, &mut ledger).converged());
    assert_eq!(it.handle().approve(&right).unwrap_err().kind(), ErrorKind::Expired);
    assert_eq!(sim.world().starts, 0);
}

/// Another engine with the same journal spends it.
#[test]
fn a_token_that_is_spent_meanwhile_is_refused_at_the_start() {
    let sim = destructive([("a", "1")]);
    let journal = sim.journal();
    let it = Engine::new(sim.clone(), fixed([]), &journal, config(&sim)).unwrap();
    let handle = it.handle();
    let submit = |key: &str| handle.submit_job(key, snapshot("a", "k")).unwrap();
    let request = request_of(submit("k"));
    let right = token(&sim, &SECRET, request.hash, 7, 60);
    handle.approve(&right).unwrap();
    let expires = sim.now() + Duration::from_secs(60);
    journal.spend_nonce(&[7; 16], expires, sim.now()).unwrap();
    let again = request_of(submit("k"));
    assert_eq!(again.refused.as_deref(), Some("the token was used before"));
    assert_eq!(sim.world().starts, 0);
}

#[test]
fn an_approval_that_was_not_used_ends_with_the_process_and_its_token_can_be_given_again() {
    let (sim, mut it, mut ledger) = waiting();
    let right = pass_and_token(&sim, &mut it, &mut ledger);
    it.handle().approve(&right).unwrap();
    drop(it);
    let mut it = engine(&sim, fixed([("a", "2")]));
    assert!(!pass(&mut it, &mut ledger).converged());
    assert_eq!(sim.world().starts, 0);
    it.handle().approve(&right).unwrap();
    assert!(pass(&mut it, &mut ledger).converged());
    assert_eq!(sim.world().starts, 1);
}

#[test]
fn no_gate_lets_nothing_destructive_pass() {
    let sim = destructive([("a", "1")]);
    let (mut it, mut ledger) = (sim.engine(fixed([("a", "2")])), MemoryLedger::default());
    let right = pass_and_token(&sim, &mut it, &mut ledger);
    assert_eq!(it.handle().approve(&right).unwrap_err().kind(), ErrorKind::Signature);
}

#[test]
fn a_thousand_wrong_tokens_pass_nothing_and_spend_nothing() {
    let (sim, mut it, mut ledger) = waiting();
    pass(&mut it, &mut ledger);
    let handle = it.handle();
    let request = handle.approvals().remove(0);
    let right = token(&sim, &SECRET, request.hash, 7, 60);
    let gate = Gate::signed_by("host a", &public_key(&SECRET)).unwrap();
    let foreign = Gate::signed_by("host b", &public_key(&SECRET)).unwrap();
    let state = sim.world().objects["a"].clone();
    let mut random = fastrand::Rng::with_seed(1);
    let mut number = move |below: usize| random.usize(..below);
    let mut kinds = std::collections::BTreeMap::new();
    for round in 0..1000 {
        let other = round.to_string();
        let wrong = match round % 7 {
            0..=2 => {
                let mut bytes = right.clone().into_bytes();
                bytes[number(right.len())] ^= 1 << number(7);
                // Flipping such a bit of ASCII gives ASCII.
                String::from_utf8(bytes).unwrap()
            }
            3 => {
                let action = request.action.clone().with("more", other);
                token(&sim, &SECRET, gate.hash(&action, Some(&state)), 7, 60)
            }
            4 => {
                let state = state.clone().with("memory", format!("1{other}"));
                let hash = gate.hash(&request.action, Some(&state));
                token(&sim, &SECRET, hash, 7, 60)
            }
            5 => match round % 2 {
                0 => token(&sim, &SECRET, foreign.hash(&request.action, Some(&state)), 7, 60),
                _ => token(&sim, &SECRET, request.hash, 7, 0),
            },
            _ => token(&sim, &[2 + number(200) as u8; 32], request.hash, 7, 60),
        };
        let error = handle.approve(&wrong).unwrap_err();
        *kinds.entry(format!("{:?}", error.kind())).or_insert(0) += 1;
        if round % 50 == 0 {
            assert!(!pass(&mut it, &mut ledger).converged());
        }
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    assert_eq!(kinds.values().sum::<i32>(), 1000, "{kinds:?}");
    assert_eq!(sim.world().starts, 0);
    // All of these tokens had the right one's nonce, which is not spent.
    handle.approve(&right).unwrap();
    assert!(pass(&mut it, &mut ledger).converged());
    assert_eq!(sim.world().starts, 1);
}

#[test]
fn a_destructive_job_waits_for_its_approval() {
    let sim = destructive([("a", "1")]);
    let it = engine(&sim, fixed([]));
    let handle = it.handle();
    let submit = |key: &str| handle.submit_job(key, snapshot("a", "k")).unwrap();
    let request = request_of(submit("k"));
    assert_eq!(handle.approvals(), [(*request).clone()]);
    handle.approve(&token(&sim, &SECRET, request.hash, 7, 60)).unwrap();
    assert_eq!(submit("k"), JobState::Succeeded);
    assert!(handle.approvals().is_empty());
    // Another key means another execution, and the token is used.
    let again = request_of(submit("k2"));
    let used = token(&sim, &SECRET, again.hash, 7, 60);
    let error = handle.approve(&used).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Spent);
    assert!(matches!(submit("k2"), JobState::NeedsApproval(_)));
    assert_eq!(submit("k"), JobState::Succeeded);
    assert_eq!(sim.world().starts, 1);
    assert_eq!(sim.world().mode, Mode::Done);
}
