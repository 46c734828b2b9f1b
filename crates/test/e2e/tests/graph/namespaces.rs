//! An agent of three namespaces, killed at random among other writers: the example `namespaces`.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use trueup_testkit::{NamedNetns, ip, is_long, named_netns};

use crate::agent::Agent;

/// Another writer's objects, made once in each namespace.
const FOREIGN: [&str; 4] = [
    "link add theirs type ifb",
    "address add 10.77.0.1/24 dev theirs",
    "route add blackhole 10.78.0.0/16 protocol static",
    "rule add pref 7777 to 10.79.0.0/16 lookup 77",
];

/// Replaces the agent's route with another writer's. It must go before all can converge.
const TAKEN: &str = "route replace blackhole 10.99.1.0/24";

/// Another writer's acts on the agent's objects.
const HARM: [&str; 8] = [
    "route delete 10.99.1.0/24",
    TAKEN,
    "route delete 10.99.2.0/24",
    "address delete 10.66.0.1/24 dev ours",
    "address add 10.66.0.9/24 dev ours",
    "link set ours down",
    "link delete ours",
    "rule delete pref 6666",
];

struct Site {
    agent: Agent,
    namespaces: [NamedNetns; 3],
    /// The number of times that another writer has written the file `conf`.
    overwritten: AtomicUsize,
}

impl Site {
    fn new() -> Site {
        let namespaces = ["storm-a", "storm-b", "storm-c"].map(named_netns);
        for namespace in &namespaces {
            for line in FOREIGN {
                namespace.ip(&line.split(' ').collect::<Vec<_>>());
            }
        }
        Site { agent: Agent::new(), namespaces, overwritten: AtomicUsize::new(0) }
    }

    /// Declares a version of the file. Every second version has one more route.
    fn declare(&self, version: usize) {
        let directory = self.agent.directory().display();
        let more = match version % 2 {
            0 => "[[route]]\ndst = \"10.99.2.0/24\"\nvia = \"10.66.0.3\"\n",
            _ => "",
        };
        let text = format!(
            "sysctl = {{ \"net.ipv4.ip_forward\" = 1, \"net.ipv4.conf.all.rp_filter\" = {} }}\n\
             link = [{{ name = \"ours\", kind = \"ifb\", up = true }}]\n\
             address = [{{ address = \"10.66.0.1/24\", dev = \"ours\" }}]\n\
             rule = [{{ priority = 6666, to = \"10.66.0.0/16\", table = 66 }}]\n\
             [[route]]\ndst = \"10.99.1.0/24\"\nvia = \"10.66.0.2\"\n{more}\
             [[file]]\nname = \"conf\"\npath = \"{directory}/conf\"\ncontent = \"{version}\\n\"\n\
             [[exec]]\nname = \"reload\"\n\
             command = [\"/bin/sh\", \"-c\", \"cat {directory}/conf >> {directory}/log\"]\n\
             on = [\"file.conf\"]\nafter = [\"route\"]\n",
            version % 3
        );
        self.agent.write("site.toml", &text);
    }

    fn start(&self) -> Process {
        let directory = self.agent.directory();
        let output = fs::File::create(directory.join("output")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_example-namespaces"));
        command
            .args([directory.join("journal"), directory.join("site.toml")])
            .args(self.namespaces.iter().map(NamedNetns::name))
            .stdout(output)
            .stderr(Stdio::inherit());
        Process(command.spawn().unwrap())
    }

    /// Returns true if the running process has reported convergence.
    fn is_converged(&self) -> bool {
        self.read("output").contains("converged: true")
    }

    #[track_caller]
    fn wait_converged(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.is_converged() {
            assert!(Instant::now() < end, "{}", self.read("output"));
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.agent.directory().join(name)).unwrap_or_default()
    }

    /// Harms a namespace, or the file, until the end.
    fn harm(&self, seed: u64, is_over: &AtomicBool) {
        let mut rng = Rng::with_seed(seed);
        while !is_over.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(rng.u64(0..400)));
            let namespace = self.namespaces[rng.usize(0..3)].name();
            match rng.usize(0..HARM.len() + 2) {
                0 => {
                    self.overwritten.fetch_add(1, Ordering::SeqCst);
                    fs::write(self.agent.directory().join("conf"), "another writer\n").unwrap();
                }
                1 => drop(run(&[
                    "netns",
                    "exec",
                    namespace,
                    "sysctl",
                    "-w",
                    "net.ipv4.ip_forward=0",
                ])),
                act => {
                    let words = HARM[act - 2].split(' ');
                    run(&["-netns", namespace].into_iter().chain(words).collect::<Vec<_>>());
                }
            }
        }
    }

    /// Checks a namespace's objects against a version.
    fn check(&self, namespace: &NamedNetns, version: usize) {
        let shown = |words: &str| namespace.ip(&words.split(' ').collect::<Vec<_>>());
        for (words, part) in [
            ("address show dev theirs", "10.77.0.1/24"),
            ("route show 10.78.0.0/16", "blackhole"),
            ("rule show pref 7777", "lookup 77"),
            ("address show dev ours", "10.66.0.1/24"),
            ("link show ours", ",UP"),
            ("route show 10.99.1.0/24", "via 10.66.0.2 dev ours proto 116"),
            ("rule show pref 6666", "lookup 66"),
        ] {
            assert!(shown(words).contains(part), "{words}: {}", shown(words));
        }
        let second = shown("route show 10.99.2.0/24");
        assert_eq!(second.contains("via 10.66.0.3"), version.is_multiple_of(2), "{second}");
        let name = namespace.name();
        let setting = ip(&["netns", "exec", name, "cat", "/proc/sys/net/ipv4/ip_forward"]);
        assert_eq!(setting, "1\n");
    }

    /// Checks that the command ran for each converged version: once, or more often if the file was
    /// written again or a kill came between. An older version must never follow a newer one.
    fn check_log(&self, converged: &[usize], versions: usize, kills: usize) {
        let log = self.read("log");
        let runs: Vec<usize> = log.lines().filter_map(|line| line.parse().ok()).collect();
        let mut counts = BTreeMap::<usize, usize>::new();
        runs.iter().for_each(|run| *counts.entry(*run).or_default() += 1);
        for version in converged {
            assert!(counts.contains_key(version), "no run for version {version}: {log}");
        }
        assert!(runs.is_sorted(), "{log}");
        let most = versions + kills + self.overwritten.load(Ordering::SeqCst);
        assert!(log.lines().count() <= most, "more than {most} runs: {log}");
    }
}

/// A process of the example, killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Runs `ip`, which may fail, as the object to harm may be gone.
fn run(args: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Lasts some seconds, or five minutes with `TRUEUP_LONG=1`.
pub(crate) fn an_agent_of_three_namespaces_is_killed_among_other_writers_and_converges() {
    let length = Duration::from_secs(if is_long() { 300 } else { 8 });
    let seed = std::env::var("TRUEUP_SEED").ok().and_then(|it| it.parse().ok());
    let seed = seed.unwrap_or(17);
    let (site, end) = (Site::new(), Instant::now() + length);
    let (mut rng, is_over) = (Rng::with_seed(seed), AtomicBool::new(false));
    let (mut version, mut kills, mut converged) = (0, 0, Vec::new());
    thread::scope(|scope| {
        let writers = [1, 2].map(|n| {
            let (site, is_over) = (&site, &is_over);
            scope.spawn(move || site.harm(seed + n, is_over))
        });
        while Instant::now() < end {
            version += 1;
            site.declare(version);
            let process = site.start();
            thread::sleep(Duration::from_millis(rng.u64(0..2500)));
            if site.is_converged() {
                converged.push(version);
            }
            drop(process);
            kills += 1;
        }
        is_over.store(true, Ordering::SeqCst);
        writers.into_iter().for_each(|it| it.join().unwrap());
    });
    site.declare(version);
    let _process = site.start();
    for namespace in &site.namespaces {
        run(&["-netns", namespace.name(), "route", "delete", "blackhole", "10.99.1.0/24"]);
    }
    site.wait_converged();
    converged.push(version);
    site.namespaces.iter().for_each(|it| site.check(it, version));
    assert_eq!(site.read("conf"), format!("{version}\n"));
    site.check_log(&converged, version, kills);
    let seen = converged.len();
    println!("seed {seed}: {kills} kills, {version} versions, {seen} of them seen converged");
}
