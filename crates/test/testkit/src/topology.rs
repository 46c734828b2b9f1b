//! Makes and reads state for tests with iproute2, an independent implementation of the wire format.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Runs `ip ARGS...` in the calling thread's namespace and returns its output.
///
/// # Panics
///
/// If the command fails: with the command and its output.
#[track_caller]
pub fn ip(args: &[&str]) -> String {
    let output = run(args, "");
    assert!(output.status.success(), "{}", failure(args, &output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs an `ip` command that must fail and returns its error text.
///
/// # Panics
///
/// If it succeeds.
#[track_caller]
pub fn ip_fails(args: &[&str]) -> String {
    let output = run(args, "");
    assert!(!output.status.success(), "ip {} succeeded", args.join(" "));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs commands, each a line without the leading `ip`, in one process (`ip -batch -`); stops at
/// the first that fails.
///
/// # Panics
///
/// If a line fails: with the error text, which has the line's number.
#[track_caller]
pub fn ip_batch<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) {
    let mut input = String::new();
    for line in lines {
        input.push_str(line.as_ref());
        input.push('\n');
    }
    let args = ["-batch", "-"];
    let output = run(&args, &input);
    assert!(output.status.success(), "{}", failure(&args, &output));
}

/// Runs lines of `ip`, or of `bridge` if they begin with `fdb`. Any line may fail. Returns the
/// error messages.
///
/// # Panics
///
/// If the programs cannot be run.
#[track_caller]
pub fn ip_force<S: AsRef<str>>(lines: &[S]) -> String {
    let program = |line: &S| if line.as_ref().starts_with("fdb") { "bridge" } else { "ip" };
    // A refused `ip neighbour` ends the whole batch.
    let ends = |line: &S| line.as_ref().starts_with("neighbour");
    let mut messages = String::new();
    for lines in lines.chunk_by(|one, next| program(one) == program(next) && !ends(one)) {
        let input: String = lines.iter().flat_map(|line| [line.as_ref(), "\n"]).collect();
        let output = run_program(program(&lines[0]), &["-force", "-batch", "-"], &input);
        messages += &String::from_utf8_lossy(&output.stderr);
    }
    messages
}

/// Returns the report of `ip -json -details ARGS...`, as a `serde_json::Value` or a type of the
/// caller's choice; an empty array if it prints nothing.
///
/// `ip` 6.1 leaves out routes with hundreds of next hops: use [`raw_dump`](crate::raw_dump) for
/// them.
///
/// # Panics
///
/// If it fails or its output is not JSON.
#[track_caller]
pub fn ip_json<T: DeserializeOwned>(args: &[&str]) -> T {
    let text = ip(&[&["-json", "-details"], args].concat());
    let json = match text.trim() {
        "" => "[]",
        rows => rows,
    };
    serde_json::from_str(json).unwrap_or_else(|error| panic!("ip {}: {error}", args.join(" ")))
}

/// Returns the index of a link in the calling thread's namespace.
///
/// # Panics
///
/// If there is no link with this name.
#[track_caller]
pub fn index_of(name: &str) -> u32 {
    let index = ip_json::<Value>(&["link", "show", "dev", name])[0]["ifindex"].as_u64();
    index.and_then(|index| u32::try_from(index).ok()).expect("a link has an index")
}

/// Makes a pair of virtual Ethernet links, both up.
#[track_caller]
pub fn veth_pair(one: &str, other: &str) {
    ip_batch([
        format!("link add name {one} type veth peer name {other}"),
        format!("link set dev {one} up"),
        format!("link set dev {other} up"),
    ]);
}

/// Makes a bridge, up, with these links as its ports.
#[track_caller]
pub fn bridge(name: &str, ports: &[&str]) {
    ip_batch([format!("link add name {name} type bridge"), format!("link set dev {name} up")]);
    ip_batch(ports.iter().map(|port| format!("link set dev {port} master {name}")));
}

/// Makes `n` veth pairs, up, for routes to use. Pair `i` is `up<i>` with `10.200.<i>.1/24` and
/// `fd00:200:<i>::1/64`, and `far<i>` without addresses. Any other address of those prefixes can be
/// a gateway.
///
/// # Panics
///
/// If `n` is above 255, or links with those names exist.
#[track_caller]
pub fn uplinks(n: usize) {
    assert!(n <= 255, "the index is a byte of the address");
    ip_batch((0..n).flat_map(|i| {
        [
            format!("link add up{i} type veth peer name far{i}"),
            format!("link set up{i} up"),
            format!("link set far{i} up"),
            format!("address add 10.200.{i}.1/24 dev up{i}"),
            format!("address add fd00:200:{i:x}::1/64 dev up{i} nodad"),
        ]
    }));
}

/// A network namespace with a name under `/run/netns`, deleted when dropped.
#[must_use = "deleted when dropped"]
pub struct NamedNetns(String);

impl NamedNetns {
    /// Returns the name under `/run/netns`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Runs `ip ARGS...` inside the namespace.
    ///
    /// # Panics
    ///
    /// Like [`ip`].
    #[track_caller]
    pub fn ip(&self, args: &[&str]) -> String {
        ip(&[&["-netns", &self.0], args].concat())
    }
}

impl Drop for NamedNetns {
    fn drop(&mut self) {
        run(&["netns", "delete", &self.0], "");
    }
}

/// Makes a network namespace that can be opened by name; its `lo` is down. All tests of a process
/// share `/run`, so choose a name unique to the test.
#[track_caller]
pub fn named_netns(name: &str) -> NamedNetns {
    ip(&["netns", "add", name]);
    NamedNetns(name.to_owned())
}

/// Calls `done` every 50 ms until it returns true, for the kernel's asynchronous work.
///
/// # Panics
///
/// If it still returns false after a minute: with `what`.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "waited a minute: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[track_caller]
fn run(args: &[&str], input: &str) -> Output {
    run_program("ip", args, input)
}

fn run_program(program: &str, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}, of Debian's package iproute2: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    thread::scope(|scope| {
        // On its own thread, or both sides could wait with full pipes; a child that failed early
        // stops reading.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().expect("a child to wait for")
    })
}

fn failure(args: &[&str], output: &Output) -> String {
    format!(
        "ip {}: {}\n{}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    )
}
