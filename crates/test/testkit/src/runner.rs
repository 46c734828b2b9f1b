//! The `main` of a kernel test target: one namespace for the process, and one for each test. It has
//! the command line and the summary of the standard harness, so filters, `--list` and cargo-nextest
//! work.

use std::any::Any;
use std::env;
use std::fs;
use std::io;
use std::process::ExitCode;
use std::thread;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::enter::{enter, quiet_netns};
use crate::wire::lacks_kind;

/// Makes `main` of a target with `harness = false` from the named functions, each a `fn()` that
/// panics to fail. A function missing from the list is dead code, which the compiler reports.
///
/// Each test runs as root in its own namespace, see [`quiet_netns`]. On a machine that forbids
/// namespaces every test fails with the remedy; with `TRUEUP_SKIP_KERNEL=1` tests are ignored
/// instead, unless `CI=true`.
///
/// ```no_run
/// fn loopback_is_up() {
///     let links: serde_json::Value = trueup_testkit::ip_json(&["link", "show", "up"]);
///     assert_eq!(links[0]["ifname"], "lo");
/// }
///
/// trueup_testkit::kernel_tests![loopback_is_up];
/// ```
///
/// If a test needs a kind of link that some kernels lack, write it as `vlans_come_and_go where
/// "vlan"`. If the running kernel answers that it does not know the kind, the test does not apply:
/// it is not in the list, and a line on standard output says so. With any other answer it runs.
#[macro_export]
macro_rules! kernel_tests {
    ($($test:path $(where $kind:literal)?),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::main_where(&[$((stringify!($test), $test as fn(), &[$($kind)?])),+])
        }
    };
}

/// A test: name, function, and the kinds of links that it needs.
pub type TestWhere<'a> = (&'static str, fn(), &'a [&'a str]);

/// Does the same as [`main`] for tests that need kinds of links. Lists the tests left out on
/// standard output.
pub fn main_where(tests: &[TestWhere]) -> ExitCode {
    // Do this before the arguments are read: the harness starts threads.
    let entered = enter();
    let mut kinds: Vec<&str> = tests.iter().flat_map(|test| test.2).copied().collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.retain(|kind| entered.is_ok() && lacks_kind(kind));
    let (mut here, mut elsewhere) = (Vec::new(), 0);
    for &(name, test, needs) in tests {
        if needs.iter().any(|kind| kinds.contains(kind)) {
            elsewhere += 1;
        } else {
            here.push((name, test));
        }
    }
    // Programs read the list.
    if elsewhere > 0 && !env::args().any(|arg| arg == "--list") {
        println!(
            "not applicable here: {elsewhere} tests, as this kernel lacks {}",
            kinds.join(", ")
        );
    }
    run_all(&here, entered)
}

/// Runs the tests of [`kernel_tests!`](crate::kernel_tests), each given as name and function.
pub fn main(tests: &[(&'static str, fn())]) -> ExitCode {
    // Do this before the arguments are read: the harness starts threads.
    run_all(tests, enter())
}

fn run_all(tests: &[(&'static str, fn())], entered: io::Result<()>) -> ExitCode {
    let forbidden = entered.err().map(|error| error.to_string());
    let skip = forbidden.is_some() && may_skip(|name| env::var(name).ok());
    if let (Some(reason), true) = (&forbidden, skip) {
        eprintln!("kernel tests SKIPPED: {reason}");
    }
    let trials = tests
        .iter()
        .map(|&(name, test)| {
            let forbidden = forbidden.clone();
            Trial::test(name, move || match forbidden {
                Some(reason) => Err(reason.into()),
                None => run(name, test),
            })
            .with_ignored_flag(skip)
        })
        .collect();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(tests_at_once);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns how many kernel tests run at once by default (`--test-threads` overrides it): more than
/// there are processors, as a test mostly waits for the kernel. (Emulated machines override it.)
pub fn tests_at_once() -> usize {
    4 * thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the running kernel's version, such as (6, 18).
///
/// ```
/// assert!(trueup_testkit::running_version() >= (5, 3)); // nexthop objects
/// ```
pub fn running_version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Enters a namespace as a test gets it, for a page's example that changes the kernel and is its
/// own process (`standalone_crate`). If a kernel test would be ignored here, the process exits
/// successfully.
///
/// # Panics
///
/// If a kernel test would fail here: the machine forbids namespaces.
pub fn example() {
    match enter() {
        Ok(()) => quiet_netns(),
        Err(forbidden) if may_skip(|name| env::var(name).ok()) => {
            eprintln!("example SKIPPED: {forbidden}");
            std::process::exit(0);
        }
        Err(forbidden) => panic!("{forbidden}"),
    }
}

/// Returns true if kernel tests are ignored where namespaces are forbidden: `TRUEUP_SKIP_KERNEL=1`
/// is set, and `CI=true` is not.
pub fn may_skip(var: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name, value: &str| var(name).is_some_and(|set| set == value);
    is("TRUEUP_SKIP_KERNEL", "1") && !is("CI", "true")
}

/// Returns true if each test should run at its full length: `TRUEUP_LONG=1` is set.
pub fn is_long() -> bool {
    env::var_os("TRUEUP_LONG").is_some_and(|set| set == "1")
}

/// Returns true if each test should do less, as on an emulated machine: `TRUEUP_SHORT=1` is set.
pub fn is_short() -> bool {
    env::var_os("TRUEUP_SHORT").is_some_and(|set| set == "1")
}

/// Returns how many random cases a test should try: `TRUEUP_CASES` if it is a number, otherwise
/// `usual`, or a fifth of it if [`is_short`].
///
/// ```
/// assert!(trueup_testkit::random_cases(50) > 0);
/// ```
pub fn random_cases(usual: u32) -> u32 {
    let wanted = env::var("TRUEUP_CASES").ok().and_then(|text| text.parse().ok());
    wanted.unwrap_or(if is_short() { usual.div_ceil(5) } else { usual })
}

/// Runs a test on its own thread, as a network namespace belongs to the thread and the harness
/// reuses its threads.
fn run(name: &str, test: fn()) -> Result<(), Failed> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            quiet_netns();
            test();
        })?
        .join()
        .map_err(|panic| Failed::from(panic_text(&*panic)))
}

/// Returns the text that a panic was given, for a payload of `catch_unwind`.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipping_is_asked_for_and_never_done_by_ci() {
        let env = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            may_skip(move |name| set.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
        };
        assert!(!env(&[]));
        assert!(env(&[("TRUEUP_SKIP_KERNEL", "1")]));
        assert!(!env(&[("TRUEUP_SKIP_KERNEL", "0")]));
        assert!(!env(&[("TRUEUP_SKIP_KERNEL", "1"), ("CI", "true")]));
    }

    #[test]
    fn a_panic_keeps_its_text() {
        assert_eq!(panic_text(&"plain"), "plain");
        assert_eq!(panic_text(&"made".to_owned()), "made");
        assert_eq!(panic_text(&7), "a panic without text");
    }
}
