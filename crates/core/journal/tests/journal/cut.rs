//! Damage: files cut short, bits flipped, foreign bytes. The journal must never panic, and never
//! return less than was acknowledged.

use std::fs;

use trueup_journal::{ErrorKind, Journal, repair};
use trueup_testkit::{Scratch, is_long};

use crate::common::{Disk, Random, export, workload};

/// Returns a journal's synced image while it is open, its image after closing, and its records.
fn images() -> ([Vec<u8>; 2], String) {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    workload().into_iter().for_each(|step| step(&journal));
    let known = export(&journal);
    let running = disk.bytes();
    // Keep it small, to limit the number of cuts.
    journal.compact().unwrap();
    drop(journal);
    ([running, disk.bytes()], known)
}

/// Checks that the journal is whole, or reports an error. Returns true if it is whole.
fn verify(image: Vec<u8>, known: &str, what: &str) -> bool {
    match Journal::open_on(Disk::of(image)) {
        Ok(journal) => {
            assert_eq!(export(&journal), known, "{what}");
            true
        }
        Err(error) => {
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::Damaged | ErrorKind::Format), "{what}: {error}");
            assert!(error.remedy().is_some());
            false
        }
    }
}

#[test]
fn a_closed_journal_cut_at_every_byte() {
    let ([_, closed], known) = images();
    let whole = (0..closed.len())
        .filter(|cut| verify(closed[..*cut].to_vec(), &known, &format!("cut at {cut}")));
    let whole = whole.count();
    println!("{} cuts, {whole} of them harmless", closed.len());
    assert!(verify(closed, &known, "not cut"));
}

/// An open file is a megabyte long, mostly zeros.
#[test]
fn a_running_journal_cut_at_every_block() {
    let ([running, _], known) = images();
    let cuts = (0..running.len()).step_by(512).chain((0..4096).map(|cut| running.len() - cut));
    for cut in cuts {
        verify(running[..cut].to_vec(), &known, &format!("cut at {cut}"));
    }
    assert!(verify(running, &known, "not cut"));
}

/// Flips a bit in every byte of both headers, ours and redb's, and in one of 64 bytes behind them.
#[test]
fn a_bit_flipped() {
    let (images, known) = images();
    let mut random = Random(4);
    let (mut flips, mut damaged) = (0, 0);
    for image in images {
        let heads = (0..1100).chain(4096..4096 + 320);
        let behind = (8192..image.len().min(100_000)).step_by(64);
        for at in heads.chain(behind.map(|at| at + random.below(64))) {
            let mut flipped = image.clone();
            flipped[at] ^= 1 << (at % 8);
            flips += 1;
            damaged += usize::from(!verify(flipped, &known, &format!("bit flipped at {at}")));
        }
    }
    println!("{flips} flips, {damaged} found, the others harmless");
    assert!(damaged > 300, "{damaged} of {flips}");
}

/// The bytes of a commit that are only in the newest of redb's two slots: 128.
const SLOT: usize = 128;

/// Returns offsets in both headers, ours and redb's behind it: each byte that is ever written, and
/// one in 16 of the unread zeros between them. Returns one in `of` of these, unless each test runs
/// at its full length.
fn heads(of: usize) -> impl Iterator<Item = usize> {
    let written = [0..24, 512..524, 1024..1036, 1536..1548, 4096..4416];
    let heads =
        (0..8192).filter(move |at| at % 16 == 0 || written.iter().any(|range| range.contains(at)));
    heads.step_by(if is_long() { 1 } else { of })
}

#[test]
fn one_flipped_byte_in_the_heads_loses_no_record_of_a_closed_journal() {
    let ([_, closed], known) = images();
    let directory = Scratch::make("heads").unwrap();
    let path = directory.join("journal");
    let mut damaged = 0;
    for at in heads(5) {
        let mut flipped = closed.clone();
        flipped[at] ^= 1 << (at % 8);
        let what = format!("bit flipped at {at}");
        if verify(flipped.clone(), &known, &what) {
            continue;
        }
        damaged += 1;
        fs::write(&path, &flipped).unwrap();
        let mut out = Vec::new();
        let error = trueup_journal::export(&path, &mut out).unwrap_err();
        assert!(error.is_damaged(), "{what}: {error}");
        assert!(out == known.as_bytes(), "{what}: export");
        repair(&path, false).unwrap_or_else(|error| panic!("{what}: repair: {error}"));
        let journal = Journal::open(&path).unwrap();
        assert_eq!(export(&journal), known, "{what}: repair");
    }
    println!("{damaged} flips in the heads were damage");
    let least = if is_long() { 24 + 9 } else { (24 + 9) / 5 };
    assert!(damaged > least, "{damaged}");
}

/// A crash leaves the last commit in only one slot, so a flip there loses this commit and no other.
/// No other flip loses anything.
#[test]
fn one_flipped_byte_in_the_heads_of_a_running_journal_loses_the_last_commit_at_most() {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    let mut steps = workload();
    let last = steps.pop().unwrap();
    steps.into_iter().for_each(|step| step(&journal));
    let before = export(&journal);
    last(&journal);
    let known = export(&journal);
    let running = disk.bytes();
    let directory = Scratch::make("running-heads").unwrap();
    let path = directory.join("journal");
    let mut shortened = 0;
    // A running journal has a megabyte, which is read several times for each flip.
    for at in heads(11) {
        let mut flipped = running.clone();
        flipped[at] ^= 1 << (at % 8);
        let what = format!("bit flipped at {at}");
        if verify(flipped.clone(), &known, &what) {
            continue;
        }
        fs::write(&path, &flipped).unwrap();
        let mut out = Vec::new();
        trueup_journal::export(&path, &mut out).unwrap_err();
        if repair(&path, false).is_ok() {
            assert!(out == known.as_bytes(), "{what}: export");
            assert_eq!(export(&Journal::open(&path).unwrap()), known, "{what}");
            continue;
        }
        shortened += 1;
        assert!(out == before.as_bytes(), "{what}: export");
        assert!(fs::read(&path).unwrap() == flipped, "{what}: written to");
        repair(&path, true).unwrap();
        assert_eq!(export(&Journal::open(&path).unwrap()), before, "{what}");
    }
    println!("{shortened} flips cost the last commit");
    assert!(shortened <= SLOT, "{shortened}");
}

#[test]
fn a_block_of_zeros_or_of_noise_anywhere() {
    let (images, known) = images();
    let mut random = Random(5);
    for image in images {
        for at in (0..image.len().min(100_000)).step_by(512) {
            for noise in [false, true] {
                let mut damaged = image.clone();
                let end = (at + 512).min(damaged.len());
                damaged[at..end].fill_with(|| if noise { random.next() as u8 } else { 0 });
                verify(damaged, &known, &format!("block at {at}, noise: {noise}"));
            }
        }
    }
}

#[test]
fn what_is_no_journal_is_refused() {
    for (bytes, kind) in [
        (Vec::new(), ErrorKind::Damaged),
        (b"trueup-journal\n".to_vec(), ErrorKind::Damaged),
        (vec![0; 100_000], ErrorKind::Format),
        (b"[Unit]\nDescription=something else\n".repeat(500), ErrorKind::Format),
    ] {
        let error = Journal::open_on(Disk::of(bytes)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let error = Journal::create_on(Disk::of(vec![1])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
}
