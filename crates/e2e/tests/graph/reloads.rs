//! Reloads, and what they may not lose: refreshes, settings, and the truth about convergence.

use rustix::process::Signal;
use serde_json::Value;
use trueup_testkit::wait_until;

use crate::agent::Agent;
use crate::settings::{ROUTE, sysctl};
use crate::watch::{RARE, printed};

/// Returns the events that were printed.
fn events(printed: &str) -> Vec<Value> {
    let lines = printed.lines();
    lines.map(|it| serde_json::from_str(it).unwrap()).collect()
}

pub(crate) fn nothing_is_said_to_be_converged_before_each_part_was_looked_at_by_the_new_file() {
    let agent = Agent::new();
    let text = |forward: &str, net: u32| {
        ROUTE.replace("10.99", &format!("10.{net}")) + &sysctl(&[("net.ipv4.ip_forward", forward)])
    };
    agent.write("f.toml", &text("0", 50));
    let args = [&["watch", "f.toml", "--format", "json"], &RARE[..]].concat();
    let mut child = agent.spawn(&args);
    let printed = printed(&mut child);
    let has = |words: &str| {
        wait_until(words, || {
            let events = events(&printed.lock().unwrap());
            let mut events = events.iter().filter(|it| it["converged"] == true);
            events.any(|it| it.to_string().contains(words))
        });
    };
    has("10.50.0.0/16");
    for net in 51..56 {
        let forward = (net % 2).to_string();
        agent.write("f.toml", &text(&forward, net));
        has(&format!("10.{net}.0.0/16"));
    }
    child.terminate(Signal::TERM);
    let events = events(&printed.lock().unwrap());
    let reports = events.iter().filter(|it| it["event"] == "report");
    let of_settings = reports.filter(|it| it.to_string().contains("ip_forward"));
    let too_early = of_settings.filter(|it| it["converged"] == true);
    assert_eq!(too_early.count(), 0, "{events:#?}");
}
