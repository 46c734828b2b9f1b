//! Dumps that silently lose rows, as dumps of IPv6 routes do while any process writes. The loss
//! causes neither an op nor a false report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use trueup_net::{Desired, Object, Routes};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
use trueup_testkit::{Kind, is_long, raw_dump, uplinks};

use crate::other_writer::{Do, HIS, OURS, OtherWriter, route, v6, wanted};

/// The table's size. Our routes and the other writer's are half each. Of four destinations in a
/// row, one is the other writer's, one ours, and two are free for routes that come and go. A dump
/// loses its place only if these lie between the others.
const TABLE: u32 = 20_000;
const SHORT_TABLE: u32 = 5_000;

pub(crate) fn dumps_that_lose_rows_cause_no_op_and_no_false_word() {
    uplinks(1);
    let table = if is_long() { TABLE } else { SHORT_TABLE };
    let mut other_writer = OtherWriter::open();
    let his: Vec<Object> = (0..table / 2).map(|at| route(v6(4 * at), HIS)).collect();
    other_writer.create(&his);
    let ours = |at: u32| v6(4 * (at % (table / 2)) + 1);
    let desired = Desired::default()
        .with_routes((0..table / 2).map(|at| wanted(ours(at))).collect::<Routes>());
    let (mut source, mut ledger) = (Rtnl::new(), MemoryLedger::default());
    let (here, options) = (Namespace::current(), Options::default());
    let mut pass =
        || source.reconcile(PassInput::new(&here, &desired, &mut ledger, &options)).unwrap();
    assert!(pass().converged(), "while no writer changes anything");

    let quiet = AtomicBool::new(false);
    let passes = if is_long() { 300 } else { 10 };
    let (mut converged, mut suspect, mut missed, mut lossy) = (0, 0, 0, 0);
    thread::scope(|scope| {
        let _quiet = Quiet(&quiet);
        let writes = scope.spawn(|| {
            let mut writer = OtherWriter::open();
            let churned: Vec<Object> =
                (0..2_000).map(|at| route(v6(4 * (at * 997 % (table / 2)) + 2), HIS)).collect();
            let mut count = 0;
            while !quiet.load(Ordering::Relaxed) {
                for some in churned.chunks(100) {
                    let both = [Do::Create, Do::Delete];
                    writer.write(both.iter().flat_map(|verb| some.iter().map(|it| (*verb, it))));
                    count += 2 * some.len();
                }
            }
            count
        });
        for number in 0..passes {
            // Sometimes a route is really gone.
            let gone = (number % 5 == 4).then(|| ours(number * 997));
            if let Some(dst) = gone {
                assert!(other_writer.takes(&route(dst, OURS)), "{dst} was there");
            }
            let report = pass();
            for done in report.ops() {
                let Object::Route(route) = &done.op.object else {
                    panic!("{:?}", done.op);
                };
                assert_eq!(Some(route.dst), gone, "pass {number}: {done:?}");
            }
            suspect += usize::from(!report.doubts().is_empty());
            converged += usize::from(report.converged());
            if let Some(dst) = gone {
                let there = other_writer.sees_ours(dst);
                assert!(there || !report.converged(), "pass {number}: {dst} is missing");
                missed += usize::from(!there);
                if !there {
                    other_writer.create([&route(dst, OURS)]);
                }
            }
            if number % 5 == 0 {
                let rows = raw_dump(Kind::Route, 10);
                let there = rows.iter().filter(|row| row.protocol() == Some(OURS));
                lossy += usize::from(there.count() != table as usize / 2);
            }
        }
        quiet.store(true, Ordering::Relaxed);
        let count = writes.join().unwrap();
        eprintln!(
            "lossy dumps: {passes} passes beside {count} writes: {suspect} suspect, {converged} converged, {missed} of {} losses \
             not seen at once; {lossy} of {} plain dumps lost rows",
            passes / 5,
            passes / 5
        );
    });
    let report = pass();
    assert!(report.converged() && report.ops().count() == 0, "while no writer changes anything");
}

/// Ends the writer, even if the test fails.
struct Quiet<'a>(&'a AtomicBool);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
