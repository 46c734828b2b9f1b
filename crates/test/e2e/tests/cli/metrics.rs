//! `watch --metrics`: the answers to a scraper, and that no scraper can delay a pass.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::Signal;
use trueup_testkit::{Snapshot, ip, uplinks, wait_until};

use crate::agent::{Agent, via};
use crate::watch::{FAST, printed, said};

pub(crate) const TCP: &str = "127.0.0.1:9116";

/// Sends a request and returns the whole answer.
pub(crate) fn ask(mut stream: impl std::io::Read + std::io::Write, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn tcp() -> TcpStream {
    let stream = TcpStream::connect(TCP).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Returns the samples of an answer by their names and labels.
#[track_caller]
pub(crate) fn samples(answer: &str) -> BTreeMap<String, f64> {
    let (head, page) = answer.split_once("\r\n\r\n").expect("a head and a page");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    samples.map(sample).collect()
}

pub(crate) const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: trueup\r\n\r\n";

pub(crate) fn metrics_count_what_was_done() {
    uplinks(1);
    Snapshot::settled();
    let agent = Agent::new();
    let one = via("10.99.0.0/16", "10.200.0.8");
    agent.write("f.toml", &one);
    let args = ["watch", "f.toml", "--interval", "3600", "--metrics", TCP];
    let mut child = agent.spawn(&args);
    wait_until("it converges", || {
        let stream = TcpStream::connect(TCP);
        stream.is_ok_and(|stream| samples(&ask(stream, GET))["trueup_converged"] == 1.0)
    });
    let first = samples(&ask(tcp(), GET));
    for (name, value) in [
        ("trueup_passes_total{extent=\"whole\"}", 1.0),
        ("trueup_ops_total{kind=\"route\",outcome=\"applied\"}", 1.0),
        ("trueup_ops_total{kind=\"route\",outcome=\"failed\"}", 0.0),
        ("trueup_seconds_since_converged", 0.0),
        ("trueup_desired_revision", 0.0),
        ("trueup_overruns_total", 0.0),
        ("trueup_file_current", 1.0),
    ] {
        assert_eq!(first.get(name), Some(&value), "{name}: {first:#?}");
    }
    assert!(first["trueup_last_pass_seconds"] > 0.0);
    assert!((1.0..=4000.0).contains(&first["trueup_next_whole_pass_seconds"]));

    agent.write("f.toml", &(one + &via("10.98.0.0/16", "10.200.0.8")));
    wait_until("both are there", || {
        samples(&ask(tcp(), GET))["trueup_ops_total{kind=\"route\",outcome=\"applied\"}"] == 2.0
    });
    assert_eq!(samples(&ask(tcp(), GET))["trueup_desired_revision"], 1.0);
    agent.write("f.toml", &via("10.97.0.0/16", "172.31.255.1"));
    let failed = "trueup_unresolved{condition=\"failed\",kind=\"route\"}";
    wait_until("one that fails is counted", || samples(&ask(tcp(), GET)).get(failed) == Some(&1.0));
    agent.write("f.toml", &via("10.98.0.0/16", "10.200.0.8"));
    wait_until("and then not any more", || samples(&ask(tcp(), GET)).get(failed) == Some(&0.0));
    agent.write("f.toml", "[[route]]\n");
    wait_until("the file is refused", || samples(&ask(tcp(), GET))["trueup_file_current"] == 0.0);
    child.terminate(Signal::TERM);
}

pub(crate) fn a_client_of_the_metrics_holds_up_no_pass() {
    uplinks(1);
    let agent = Agent::new();
    agent.write("f.toml", &via("10.99.0.0/16", "10.200.0.8"));
    let path = agent.directory().join("metrics");
    let args = [&["watch", "f.toml", "--metrics", "unix:metrics"], &FAST[..]].concat();
    let mut child = agent.spawn(&args);
    let ours = || Snapshot::take().routes_with_protocol(116).len();
    wait_until("the route is there", || ours() == 1);

    let connect = || UnixStream::connect(&path).unwrap();
    for (request, status) in [
        (&b"no request at all\r\n\r\n"[..], "400"),
        (b"\0\xff\x16\x03\x01\r\n\r\n", "400"),
        (b"GET /else HTTP/1.1\r\n\r\n", "404"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
        (&[b'x'; 20_000], "431"),
    ] {
        let answer = ask(connect(), request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    // Many silent clients, and one that went away.
    let silent: Vec<UnixStream> = (0..50).map(|_| connect()).collect();
    drop(connect());
    ip(&["route", "delete", "10.99.0.0/16"]);
    wait_until("it is there again", || ours() == 1);
    drop(silent);
    // Closed connections occupy slots until they are accepted.
    let mut answer = String::new();
    wait_until("there is room again, and it converged", || {
        answer.clear();
        let mut stream = connect();
        stream.write_all(GET).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.starts_with("HTTP/1.1 200")
            && samples(&answer)["trueup_converged"] == 1.0
    });

    // Another agent gets the address once the first has released it, and works meanwhile.
    agent.write(
        "g.toml",
        "protocol = 117\n[[route]]\ndst = \"10.97.0.0/16\"\ntype = \"blackhole\"\n",
    );
    let mut second = agent.spawn(&["watch", "g.toml", "--metrics", "unix:metrics"]);
    let (said, _printed) = (said(&mut second), printed(&mut second));
    wait_until("it reports that", || {
        let said = said.lock().unwrap();
        said.contains("cannot listen for --metrics at unix:metrics")
            && said.contains("another process listens there")
    });
    wait_until("its route is there", || Snapshot::take().routes_with_protocol(117).len() == 1);
    child.terminate(Signal::TERM);
    wait_until("it is served", || {
        UnixStream::connect(&path).is_ok_and(|stream| ask(stream, GET).starts_with("HTTP/1.1 200"))
    });
    second.terminate(Signal::TERM);
    assert!(!path.exists(), "its socket is removed");
}
