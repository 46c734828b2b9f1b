//! Vertices that run together.

use super::*;

fn member(name: &str) -> VertexSpec {
    VertexSpec::new(name).with_group("address")
}

#[test]
fn those_of_a_group_that_may_run_begin_together_and_take_one_worker() {
    let vertices = ["a", "b", "c"].map(|it| member(it).after("link"));
    let others = ["link", "other"].map(VertexSpec::new);
    let mut driver = Driver::new(2, vertices.into_iter().chain(others));
    driver.end("link", Ok(Verdict::InPlace));
    assert_eq!(driver.ran(), ["link", "other", "a", "b", "c"]);
    assert_eq!(driver.groups, [["a", "b", "c"]]);
    driver.end("b", Err(ErrorClass::Invalid));
    driver.end_all(&[]);
    assert!(driver.explain("b").contains("failed for good"));
    let is_settled = |name| driver.explain(name).contains("settled");
    assert!(is_settled("a") && is_settled("c"), "each has its own result");
}

#[test]
fn what_comes_while_a_group_runs_begins_together_after_it_and_says_so() {
    let mut driver = Driver::new(9, ["a", "b", "c", "d"].map(member));
    driver.end_all(&[]);
    driver.groups.clear();
    driver.event("a");
    driver.event("b");
    driver.event("c");
    let b = "b (group address): dirty (event); waits for the run of group address: a; \
             last run: in place";
    assert_eq!(driver.explain("b"), b);
    driver.end("a", Ok(Verdict::InPlace));
    assert_eq!(driver.groups, [["b", "c"]]);
    driver.event("d");
    driver.end("b", Ok(Verdict::InPlace));
    let id = driver.id("d");
    let waits = driver.state.explain(driver.now, id).unwrap().waits;
    let (group, members) = ("address".to_owned(), vec!["c".to_owned()]);
    assert_eq!(waits, [Wait::Group { group, members }]);
    driver.end_all(&[]);
    assert!(driver.state.is_converged(driver.now + seconds(1)));
}

#[test]
fn a_group_holds_all_semaphores_of_those_that_run() {
    let with = |name: &str, id| VertexSpec::new(name).with_semaphore(id, 1);
    let mut driver = Driver::new(
        9,
        [
            member("a").with_semaphore("s", 1),
            member("b").with_semaphore("t", 1),
            with("c", "s"),
            with("d", "t"),
        ],
    );
    assert_eq!(driver.ran(), ["a", "b"]);
    driver.end("a", Ok(Verdict::InPlace));
    assert_eq!(driver.ran(), ["c"]);
    driver.end("b", Ok(Verdict::InPlace));
    assert_eq!(driver.ran(), ["d"]);
}

#[test]
fn salt_62408_only_what_a_changed_member_notifies_is_refreshed() {
    let mut driver = Driver::new(
        2,
        [
            member("a"),
            member("b"),
            VertexSpec::new("of a").refreshed_by("a"),
            VertexSpec::new("of b").refreshed_by("b"),
        ],
    );
    driver.end("a", Ok(Verdict::InPlace));
    driver.end("b", Ok(Verdict::WouldChange));
    driver.end("b", Ok(Verdict::Changed));
    assert_eq!(driver.journal.keys().map(|it| &**it).collect::<Vec<_>>(), ["of b"]);
    driver.end_all(&[]);
    assert_eq!(driver.refreshes("of a"), [0]);
}

#[test]
fn what_joins_or_leaves_a_group_leaves_the_others_undisturbed() {
    let mut driver = Driver::new(2, ["a", "b"].map(member));
    driver.end("a", Ok(Verdict::InPlace));
    driver.ran();
    let replaced = driver.replace(["b", "c", "d"].map(member));
    let numbers = (replaced.kept.len(), replaced.added.len(), replaced.removed.len());
    assert_eq!(numbers, (1, 2, 1));
    assert_eq!(driver.ran(), ["a"], "reversed alone, while b runs on");
    driver.end("b", Ok(Verdict::InPlace));
    assert_eq!(driver.ran(), ["c", "d"]);
    driver.end_all(&[]);
    assert!(driver.state.is_converged(driver.now + seconds(1)));
}

/// Numbers that look random, and repeat each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Returns the result of a random graph in which some vertices must change, and some fail for good.
fn run(seed: u64, is_grouped: bool, is_shuffled: bool) -> BTreeMap<String, (String, bool)> {
    let mut numbers = Numbers(seed);
    let name = |at: u64| format!("v{at}");
    let mut vertices = Vec::new();
    let (mut changing, mut failing) = (Vec::new(), Vec::new());
    for at in 0..12 {
        let mut spec = VertexSpec::new(&name(at)).with_retry(0, seconds(1));
        for _ in 0..numbers.below(3).min(at) {
            let parent = name(numbers.below(at));
            spec = match numbers.below(2) {
                0 => spec.after(&parent),
                _ => spec.refreshed_by(&parent),
            };
        }
        let group = numbers.below(3);
        if is_grouped && group > 0 {
            spec = spec.with_group(&group.to_string());
        }
        match numbers.below(8) {
            0 => failing.push(name(at)),
            1..4 => changing.push(name(at)),
            _ => {}
        }
        vertices.push(spec);
    }
    if is_shuffled {
        vertices.sort_by_key(|it| it.name().bytes().rev().collect::<Vec<_>>());
    }
    let mut driver = Driver::new(3, vertices);
    while let Some((_, name, context)) = driver.going.first().cloned() {
        let acts = changing.contains(&name) || context.refreshes > 0;
        let result = match (failing.contains(&name), acts, context.apply) {
            (true, ..) => Err(ErrorClass::Invalid),
            (_, false, _) => Ok(Verdict::InPlace),
            (_, true, apply) => Ok(if apply { Verdict::Changed } else { Verdict::WouldChange }),
        };
        driver.end(&name, result);
    }
    let end = (0..12).map(name).map(|name| {
        let explained = driver.explain(&name);
        // Compare without the group's name.
        let text = explained.split_once(": ").unwrap().1.to_owned();
        let was_refreshed = driver.ran.iter().any(|it| it.0 == name && it.1.refreshes > 0);
        (name, (text, was_refreshed))
    });
    end.collect()
}

#[test]
fn grouped_equals_ungrouped_and_shuffled_equals_ordered() {
    let mut groups = 0;
    for seed in 0..2_000 {
        let apart = run(seed, false, false);
        for (is_grouped, is_shuffled) in [(true, false), (true, true), (false, true)] {
            assert_eq!(run(seed, is_grouped, is_shuffled), apart, "seed {seed}");
        }
        groups += apart.len();
    }
    assert_eq!(groups, 24_000);
}
