//! Power failures: of the writes since the last sync, any part may be kept, torn or lost. All
//! acknowledged changes must survive, and nothing that was never requested may appear.

use std::collections::BTreeMap;

use trueup_journal::{
    Backoff, Journal, Keep, KeyState, LedgerScope, OperationState, Outcome, Refusal, Start,
};
use trueup_reconcile::{Claim, Ledger as _};
use trueup_testkit::is_long;

use crate::common::{BLOCK, Disk, Event, Failing, Random, apply, at, export, ours, workload};

/// A run of the workload: the device's log, and the records after each step.
struct Run {
    formatted: Vec<u8>,
    log: Vec<Event>,
    states: Vec<String>,
}

fn run() -> Run {
    let disk = Disk::formatted();
    let formatted = disk.bytes();
    let journal = Journal::open_on(disk.clone()).unwrap();
    let mut states = vec![export(&journal)];
    for step in workload() {
        step(&journal);
        disk.acknowledge();
        states.push(export(&journal));
    }
    // The closing can be interrupted too, and so can the first change after the next opening.
    drop(journal);
    let journal = Journal::open_on(disk.clone()).unwrap();
    drop(journal.begin(Start::new("reopened", b"")).unwrap());
    disk.acknowledge();
    states.push(export(&journal));
    drop(journal);
    Run { formatted, log: disk.log(), states }
}

/// Calls `crash` for every prefix of the log, with four arguments: the durable image, the pending
/// events, the number of acknowledged steps, and the number of pending events that were already
/// pending at the call before. That number is 0 if anything else is new.
fn at_every_point(run: &Run, mut crash: impl FnMut(&[u8], &[Event], usize, usize)) -> usize {
    let mut durable = run.formatted.clone();
    let mut pending = Vec::new();
    let mut acknowledged = 0;
    for event in &run.log {
        let mut known = 0;
        match event {
            Event::Sync => {
                for event in pending.drain(..) {
                    apply(&mut durable, &event);
                }
            }
            Event::Acknowledged => acknowledged += 1,
            Event::Write(..) | Event::Len(_) => {
                known = pending.len();
                pending.push(event.clone());
            }
        }
        crash(&durable, &pending, acknowledged, known);
    }
    assert_eq!(acknowledged + 1, run.states.len());
    run.log.len()
}

/// Checks that the journal opens with all acknowledged steps, and at most the step in progress.
fn verify(run: &Run, image: Vec<u8>, acknowledged: usize, what: &str) {
    let journal = Journal::open_on(Disk::of(image));
    let journal = journal.unwrap_or_else(|error| panic!("{what}: {error}"));
    let seen = export(&journal);
    let under_way = run.states.len().min(acknowledged + 2);
    assert!(
        run.states[acknowledged..under_way].contains(&seen),
        "{what}: {acknowledged} steps were acknowledged, but there is\n{seen}"
    );
}

/// Returns events in the pieces that a disk writes atomically.
fn in_blocks(pending: &[Event]) -> Vec<Event> {
    let mut pieces = Vec::new();
    for event in pending {
        let Event::Write(offset, data) = event else {
            pieces.push(event.clone());
            continue;
        };
        let mut done = 0;
        while done < data.len() {
            let at = *offset as usize + done;
            let count = (BLOCK - at % BLOCK).min(data.len() - done);
            pieces.push(Event::Write(at as u64, data[done..done + count].to_vec()));
            done += count;
        }
    }
    pieces
}

/// Returns the whole piece, nothing, its front or its back.
fn what_arrives(random: &mut Random, piece: Event) -> Option<Event> {
    match (random.below(4), piece) {
        (0, _) => None,
        (1, Event::Write(offset, data)) => {
            let cut = random.below(data.len() + 1);
            Some(if random.below(2) == 0 {
                Event::Write(offset, data[..cut].to_vec())
            } else {
                Event::Write(offset + cut as u64, data[cut..].to_vec())
            })
        }
        (_, whole) => Some(whole),
    }
}

fn image(durable: &[u8], survivors: impl IntoIterator<Item = Event>) -> Vec<u8> {
    let mut image = durable.to_vec();
    for event in survivors {
        apply(&mut image, &event);
    }
    image
}

/// Half of the pair would be worse than neither: an operation in flight for ever, or a key that is
/// executed again.
#[test]
fn an_operation_and_what_goes_with_it_begin_and_end_together_or_not_at_all() {
    let run = run();
    let mut random = Random(6);
    let (mut ended, mut open) = (0, 0);
    at_every_point(&run, |durable, pending, _, _| {
        for _ in 0..4 {
            let mut kept = Vec::new();
            for piece in in_blocks(pending) {
                kept.extend(what_arrives(&mut random, piece));
            }
            let journal = Journal::open_on(Disk::of(image(durable, kept))).unwrap();
            let Some(operation) = journal.operation("three").unwrap() else {
                continue;
            };
            let spent = journal.spend_nonce(b"approved", at(20), at(4));
            let refusal = spent.unwrap_err().refusal();
            assert_eq!(refusal, Some(Refusal::NonceSpent), "as it began");
            let backoff = journal.backoff(b"vm3").unwrap();
            match journal.key(b"key of three").unwrap() {
                Some(KeyState::Ended { outcome, at: time }) => {
                    assert_eq!(operation.state, OperationState::Succeeded);
                    assert_eq!(operation.ended, Some(time));
                    assert_eq!((outcome, time), (Outcome::Succeeded(b"done".into()), at(4)));
                    assert_eq!(backoff, None);
                    ended += 1;
                }
                Some(KeyState::InDoubt { operation: name }) => {
                    assert_eq!(name, "three");
                    assert!(!operation.state.is_ended(), "{operation:?}");
                    assert_eq!(operation.ended, None);
                    assert!(backoff.is_some());
                    open += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    });
    assert!(ended > 0 && open > 0, "{ended} ended, {open} open");
}

#[test]
fn every_subset_of_the_writes_at_every_point() {
    let run = run();
    let mut crashes = 0;
    let points = at_every_point(&run, |durable, pending, acknowledged, known| {
        assert!(pending.len() <= 12, "{} writes between syncs", pending.len());
        // Subsets of already known events were tried in the call before.
        let first = if known == 0 { 0 } else { 1 << known };
        // Odd, so that each write is in some subsets and not in others.
        let step = if is_long() { 1 } else { 7 };
        for subset in (first..1u32 << pending.len()).step_by(step) {
            let kept = (0..pending.len()).filter(|bit| subset >> bit & 1 == 1);
            let kept = kept.map(|index| pending[index].clone());
            let what = format!("subset {subset:b} of {pending:?}");
            verify(&run, image(durable, kept), acknowledged, &what[..what.len().min(200)]);
            crashes += 1;
        }
    });
    println!("{points} points, {crashes} crashes");
}

#[test]
fn blocks_lost_at_every_point() {
    let run = run();
    let mut random = Random(1);
    let mut crashes = 0;
    let points = at_every_point(&run, |durable, pending, acknowledged, known| {
        let known = in_blocks(&pending[..known]).len();
        let blocks = in_blocks(pending);
        // Loses each block alone, and keeps each block alone.
        for one in 0..blocks.len() {
            // Keeping a known block alone was tried in the call before.
            for lost in if one < known { vec![true] } else { vec![true, false] } {
                let kept = (0..blocks.len()).filter(|index| (*index == one) != lost);
                let kept = kept.map(|index| blocks[index].clone());
                let what = format!("block {one} of {} alone lost: {lost}", blocks.len());
                verify(&run, image(durable, kept), acknowledged, &what);
                crashes += 1;
            }
        }
        for round in 0..4 {
            let kept = blocks.iter().filter(|_| random.below(2) == 0).cloned();
            verify(&run, image(durable, kept), acknowledged, &format!("round {round}"));
            crashes += 1;
        }
    });
    println!("{points} points, {crashes} crashes");
}

#[test]
fn blocks_torn_at_every_point() {
    let run = run();
    let mut random = Random(2);
    let mut crashes = 0;
    let points = at_every_point(&run, |durable, pending, acknowledged, _| {
        for round in 0..12 {
            let mut kept = Vec::new();
            for piece in in_blocks(pending) {
                kept.extend(what_arrives(&mut random, piece));
            }
            verify(&run, image(durable, kept), acknowledged, &format!("round {round}"));
            crashes += 1;
        }
    });
    println!("{points} points, {crashes} crashes");
}

/// A crash while the first change after a crash opens the journal for writing, and so on: recovery
/// recovers from its own crashes.
#[test]
fn crashes_during_recovery() {
    let run = run();
    let mut random = Random(3);
    let mut crashes = 0;
    at_every_point(&run, |durable, pending, acknowledged, _| {
        let half = pending.iter().filter(|_| random.below(2) == 0).cloned();
        let mut left = image(durable, half);
        let mut promised = Vec::new();
        for life in 0..4 {
            let disk = Disk::of(left.clone());
            let journal = Journal::open_on(disk.clone()).unwrap();
            disk.fail_after(Some(random.below(24)), Failing::All);
            let change = format!("again {life}");
            if life % 2 == 1 {
                let _ = journal.compact();
            } else if journal.begin(Start::new(&change, b"")).is_ok() {
                promised.push(change);
            }
            drop(journal);
            let mut open = Vec::new();
            for event in disk.log() {
                if let Event::Sync = event {
                    open.drain(..).for_each(|event| apply(&mut left, &event));
                } else {
                    open.push(event);
                }
            }
            let pieces = in_blocks(&open).into_iter();
            left = image(&left, pieces.filter_map(|piece| what_arrives(&mut random, piece)));
            crashes += 1;
        }
        let journal = Journal::open_on(Disk::of(left)).unwrap();
        let in_flight = journal.in_flight().unwrap().0;
        let is_there = |name: &String| in_flight.iter().any(|found| found.name == *name);
        assert!(promised.iter().all(is_there));
        let seen = export(&journal);
        let seen: String =
            seen.split_inclusive('\n').filter(|line| !line.contains("again ")).collect();
        let under_way = run.states.len().min(acknowledged + 2);
        assert!(run.states[acknowledged..under_way].contains(&seen), "{seen}");
    });
    println!("{crashes} crashes");
}

/// Each process closes the journal or is killed, and the next one continues with its result, until
/// the power fails. Of the writes since the last sync, even by earlier processes, any part is then
/// kept, torn or lost.
#[test]
fn random_work_of_many_processes_and_losses_of_power() {
    let (mut closed, mut killed, mut losses) = (0, 0, 0);
    for seed in 10..if is_long() { 500 } else { 22 } {
        let mut random = Random(seed);
        let disk = Disk::default();
        Journal::create_on(disk.clone()).unwrap();
        let (mut durable, mut pending) = (Vec::new(), Vec::new());
        run_on(&mut durable, &mut pending, disk.log());
        let mut possible = vec![String::new()];
        for life in 0..40 {
            let disk = Disk::of(image(&durable, pending.iter().cloned()));
            let journal = Journal::open_on(disk.clone());
            let journal = journal.unwrap_or_else(|error| panic!("{seed}, {life}: {error}"));
            let seen = export(&journal);
            assert!(possible.contains(&seen), "{seed}, {life}: {seen}");
            let mut states = vec![seen];
            for _ in 0..random.below(6) {
                random_step(&mut random, &journal);
                disk.acknowledge();
                states.push(export(&journal));
            }
            drop(journal);
            let mut log = disk.log();
            if random.below(2) == 0 {
                log.truncate(random.below(log.len() + 1));
                killed += 1;
            } else {
                closed += 1;
            }
            let is_synced = log.iter().any(|event| matches!(event, Event::Sync));
            let acknowledged = run_on(&mut durable, &mut pending, log);
            let under_way = states.len().min(acknowledged + 2);
            // The leftovers of a killed process are read, and become durable with the next commit.
            if is_synced {
                possible.clear();
            }
            possible.extend_from_slice(&states[acknowledged..under_way]);
            if random.below(3) == 0 {
                let pieces = in_blocks(&std::mem::take(&mut pending)).into_iter();
                let kept = pieces.filter_map(|piece| what_arrives(&mut random, piece));
                durable = image(&durable, kept.collect::<Vec<_>>());
                losses += 1;
            }
        }
    }
    println!("{closed} closed, {killed} killed, {losses} losses of power");
}

/// Applies `log` to a device: a sync makes earlier events durable. Returns the number of
/// acknowledged steps.
fn run_on(durable: &mut Vec<u8>, pending: &mut Vec<Event>, log: Vec<Event>) -> usize {
    let mut acknowledged = 0;
    for event in log {
        match event {
            Event::Sync => pending.drain(..).for_each(|event| apply(durable, &event)),
            Event::Acknowledged => acknowledged += 1,
            other => pending.push(other),
        }
    }
    acknowledged
}

/// Makes one commit, or nothing.
fn random_step(random: &mut Random, journal: &Journal) {
    let name = random.below(8).to_string();
    let scope = LedgerScope::new("n", "b");
    let mut ledger = journal.ledger("rtnl", &scope).unwrap();
    let count = random.below(60) as u8;
    let all = |claim: &Claim| -> BTreeMap<Vec<u8>, Claim> {
        (0..count).map(|key| (vec![key], claim.clone())).collect()
    };
    // Impossible steps are refused.
    let resume = || journal.resume(&name);
    let backoff = Backoff { tries: random.below(9) as u32, next: at(1) };
    let _ = match random.below(15) {
        0 => {
            let what = vec![7; random.below(9000)];
            let start = Start::new(&name, &what).object(b"vm");
            journal.begin(start).map(drop)
        }
        1 => resume().and_then(|mut it| it.running("task")),
        2 => resume().and_then(|it| it.succeeded(b"answer", at(1))),
        3 => journal.forget_operations(Keep::Latest(2)).map(drop),
        4 => {
            let start = Start::new(&name, b"").key(name.as_bytes()).object(b"vm");
            journal.begin(start).map(drop)
        }
        9 => resume().and_then(|it| it.failed("why", Some(backoff), at(1))),
        10 => resume().and_then(|it| it.not_executed("why", None, at(1))),
        11 => journal.forget_keys(Keep::Latest(2)).map(drop),
        12 => journal.spend_nonce(name.as_bytes(), at(5), at(1)),
        13 => journal.forget_nonces(at(5)).map(drop),
        14 => journal.clear_backoff(b"vm"),
        5 => {
            let value = vec![random.next() as u8; random.below(300)];
            return drop(ledger.commit_outcomes(all(&ours(value))));
        }
        6 => return drop(ledger.commit_outcomes(all(&Claim::NotOurs))),
        7 => return drop(ledger.begin(all(&Claim::NotOurs))),
        _ => journal.compact().map(drop),
    };
}
