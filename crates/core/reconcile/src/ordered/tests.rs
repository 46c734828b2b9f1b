//! Two sources in order.

use std::io::{Read as _, Write as _, pipe};

use super::*;
use crate::{Claim, LedgerError, MemoryLedger, PassLimits};

/// A source that writes the desired number, unless it is set to fail.
#[derive(Default)]
struct Number {
    kind: &'static str,
    fails: bool,
    is_gone: bool,
    events: Option<io::PipeReader>,
    extents: Vec<Extent>,
}

struct Written(&'static str, Outcome);

impl Report for Written {
    fn converged(&self) -> bool {
        self.1.is_applied()
    }

    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        visit(ReportedOp::new(self.0, self.1, &|| OpKey(1)));
    }
}

impl Source for Number {
    type Scope = ();
    type Desired = u8;
    type Options = ();
    type Report = Written;
    type Observed = u8;
    type Error = LedgerError;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Written, LedgerError> {
        self.extents.push(input.limits.extent());
        if self.fails {
            return Err(LedgerError::new(format!("{} fails", self.kind)));
        }
        if input.limits.ops() == 0 {
            return Ok(Written(self.kind, Outcome::Pending(())));
        }
        let claim = Claim::Ours(vec![*input.desired]);
        input.ledger.commit_outcomes([(self.kind.into(), claim)].into())?;
        Ok(Written(self.kind, Outcome::Applied))
    }

    fn subscribe(&mut self, (): &(), _: Hints) -> Subscribed<(), LedgerError> {
        if self.is_gone { Subscribed::Unsupported } else { Subscribed::Active(()) }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(|it| it.as_fd())
    }

    fn drain(&mut self) -> Result<Drained, LedgerError> {
        Ok(if self.is_gone { Drained::Nothing } else { Drained::Hint })
    }
}

fn number(kind: &'static str, fails: bool) -> Number {
    Number { kind, fails, ..Number::default() }
}

type Pair = Ordered<Number, Number>;
type Passed = Result<<Pair as Source>::Report, <Pair as Source>::Error>;

fn pass(pair: &mut Pair, limits: PassLimits<'_>) -> (Passed, Vec<u8>) {
    let mut ledger = MemoryLedger::default();
    let (desired, options) = ((3, 4), ((), ()));
    let input = PassInput::new(&(), &desired, &mut ledger, &options).with_limits(limits);
    let passed = pair.reconcile(input);
    let owned = ledger.owned().unwrap();
    (passed, owned.into_values().flatten().collect())
}

fn kinds(report: &impl Report) -> Vec<(&'static str, bool)> {
    let mut kinds = Vec::new();
    report.outcomes(&mut |op| kinds.push((op.kind, op.outcome.is_applied())));
    kinds
}

#[test]
fn each_has_its_own_ledger_and_one_report_has_the_ops_of_both() {
    let mut pair = Pair::new(number("a", false), number("b", false), MemoryLedger::default());
    let (report, owned) = pass(&mut pair, PassLimits::default());
    let passed = report.unwrap();
    assert!(passed.converged());
    assert_eq!(kinds(&passed), [("a", true), ("b", true)]);
    assert_eq!(owned, [3]);
    assert_eq!(pair.ledger.owned().unwrap(), [(b"b".to_vec(), vec![4])].into());
}

#[test]
fn one_that_fails_stops_no_other_and_an_error_says_that_nothing_was_tried() {
    for fails in [(true, false), (false, true), (true, true)] {
        let (first, second) = (number("a", fails.0), number("b", fails.1));
        let mut pair = Pair::new(first, second, MemoryLedger::default());
        let (report, _) = pass(&mut pair, PassLimits::default());
        match (fails, report) {
            ((true, true), Err(error)) => assert_eq!(error.to_string(), "a fails"),
            (_, Ok(report)) => {
                assert!(!report.converged() && !report.is_seen_whole());
                assert_eq!(report.coverage(), EventCoverage::Nothing);
                assert_eq!(kinds(&report).len(), 1);
                assert!(report.error.is_some());
            }
            (_, Err(error)) => panic!("{error}"),
        }
    }
    let mut pair = Pair::new(number("a", true), number("b", false), MemoryLedger::default());
    assert!(pass(&mut pair, PassLimits::default().with_ops(0)).0.is_err());
}

#[test]
fn a_limit_of_ops_holds_for_both() {
    let mut pair = Pair::new(number("a", false), number("b", false), MemoryLedger::default());
    let (report, _) = pass(&mut pair, PassLimits::default().with_ops(1));
    assert_eq!(kinds(&report.unwrap()), [("a", true), ("b", false)]);
}

#[test]
fn one_that_depends_on_the_first_runs_only_then_and_looks_at_everything() {
    let mut pair = Pair::new(number("a", false), number("b", false), MemoryLedger::default())
        .only_after(|report| report.1.is_applied());
    let dirty = PassLimits::default().with_extent(Extent::Dirty);
    let (report, _) = pass(&mut pair, dirty.with_ops(0));
    assert!(report.unwrap().second.is_none());
    let (report, _) = pass(&mut pair, dirty);
    assert!(report.unwrap().second.is_some());
    assert_eq!(pair.second.extents, [Extent::Everything]);
    pair.first.fails = true;
    assert!(pass(&mut pair, dirty).0.is_err());
    pair.first.is_gone = true;
    assert!(!pair.subscribe(&(), Hints::new(|| {})).is_active(), "only the first one's");
}

#[test]
fn events_of_both_are_polled() {
    let (reads, writes): (Vec<_>, Vec<_>) = [pipe().unwrap(), pipe().unwrap()].into_iter().unzip();
    let [first, second] = <[_; 2]>::try_from(reads).unwrap();
    let [first, second] =
        [first, second].map(|it| Number { events: Some(it), ..number("a", false) });
    let mut pair = Pair::new(first, second, MemoryLedger::default());
    assert!(pair.subscribe(&(), Hints::new(|| {})).is_active());
    for (of, mut event) in writes.iter().enumerate() {
        assert!(!is_readable(&pair));
        event.write_all(b"!").unwrap();
        assert!(is_readable(&pair));
        assert_eq!(pair.drain().unwrap(), Drained::Hint);
        let member = [&pair.first, &pair.second][of];
        member.events.as_ref().unwrap().read_exact(&mut [0]).unwrap();
    }
    assert_eq!(Drained::Hint.max(Drained::Lost), Drained::Lost);
}

fn is_readable(pair: &Pair) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let descriptor = pair.descriptor().unwrap();
    let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).unwrap() > 0
}
