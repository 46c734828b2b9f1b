//! Random sequences of moves on a host. Devices come and go between two passes, and another writer
//! moves a subnet to another device. Masters are declared together with their ports. Links and
//! addresses swap properties that must be unique, and settings of links are declared beside them.
//! Each pass is judged as in the other tests. At the end all devices are there, and everything must
//! be as declared.

use std::fs;

use proptest::collection::vec;
use proptest::prelude::*;
use trueup::sysctl::{Desired as Settings, Sysctl};
use trueup_e2e::desired::{address, name, nothing, up, via};
use trueup_e2e::property;
use trueup_net::{
    BridgeAttrs, Desired, IfName, Link, LinkKind, MacvlanAttrs, MacvlanMode, NextHop, NextHops,
    Route, VxlanAttrs,
};
use trueup_reconcile::{PassInput, Report as _, Source as _};

use crate::case::Run;

/// Another writer's acts, and the desired state after them.
#[derive(Clone, Debug)]
struct Step {
    acts: Vec<u8>,
    declared: u32,
}

/// The number of passes that convergence may take: a lower link must exist before the upper one is
/// considered.
const PASSES: usize = 3;

pub(crate) fn whatever_moves_it_is_as_declared_in_the_end() {
    let step = || {
        let step = (vec(0..ACTS, 0..3), any::<u32>());
        step.prop_map(|(acts, declared)| Step { acts, declared })
    };
    property::run("moves", 40, || vec(step(), 1..6), |steps: &Vec<Step>| run(steps));
}

fn run(steps: &[Step]) -> Result<(), String> {
    let mut run = Run::begin(false);
    let ran = moves(&mut run, steps);
    run.end(ran)
}

/// The places of another writer's objects.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The device of each subnet, for both families: 0 is e0, 1 is e1.
    subnets: [usize; 2],
    has_device: bool,
    is_down: bool,
}

const ACTS: u8 = 6;
const SUBNETS: [&str; 2] = ["10.83.0.1/24", "fd83::1/64 nodad"];

fn act(place: &mut Place, what: u8) -> Vec<String> {
    match what {
        0 | 1 => {
            let family = usize::from(what);
            let (subnet, from) = (SUBNETS[family], place.subnets[family]);
            let to = 1 - from;
            place.subnets[family] = to;
            moved(subnet, from, to)
        }
        2 | 3 => {
            place.has_device = !place.has_device;
            vec![match place.has_device {
                true => "link add t0 up type veth peer name t1".to_owned(),
                false => "link del t0".to_owned(),
            }]
        }
        4 => {
            place.is_down = !place.is_down;
            vec![format!("link set f0 {}", ["up", "down"][usize::from(place.is_down)])]
        }
        _ => vec!["route flush table main".to_owned()],
    }
}

/// Returns commands that move an address to another device, or make it again on the same.
fn moved(subnet: &str, from: usize, to: usize) -> Vec<String> {
    let bare = subnet.trim_end_matches(" nodad");
    vec![format!("address del {bare} dev e{from}"), format!("address add {subnet} dev e{to}")]
}

fn moves(run: &mut Run, steps: &[Step]) -> Result<(), String> {
    let mut base = Vec::new();
    for (at, subnet) in SUBNETS.iter().enumerate() {
        base.push(format!("link add e{at} up type veth peer name f{at}"));
        base.push(format!("link set f{at} up"));
        base.push(format!("address add {subnet} dev e0"));
    }
    run.other_writer(&base);
    let mut place = Place::default();
    let mut settings = Kept::default();
    let mut last = nothing();
    for step in steps {
        let acts: Vec<String> = step.acts.iter().flat_map(|what| act(&mut place, *what)).collect();
        run.other_writer(&acts);
        last = declared(step.declared);
        run.pass(&last)?;
        settings.pass(run, step.declared)?;
    }
    let mut acts = Vec::new();
    if !place.has_device {
        acts.extend(act(&mut place, 2));
    }
    if place.is_down {
        acts.extend(act(&mut place, 4));
    }
    // A flush may have deleted the subnets' routes.
    for (subnet, at) in SUBNETS.iter().zip(place.subnets) {
        acts.extend(moved(subnet, at, at));
    }
    run.say("all devices are there");
    run.other_writer(&acts);
    let declared = steps.last().map_or(0, |step| step.declared);
    let mut passes = 0;
    while !run.pass(&last)? {
        passes += 1;
        if passes == PASSES {
            return Err("nothing is in the way, and still it does not converge".to_owned());
        }
    }
    if !settings.pass(run, declared)? {
        return Err("nothing is in the way of the settings".to_owned());
    }
    // Settings change no part of the network.
    match run.pass(&last)? {
        true => Ok(()),
        false => Err("the settings have undone what was converged".to_owned()),
    }
}

fn bit(bits: u32, at: u32) -> bool {
    bits & (1 << at) != 0
}

/// Returns the desired state encoded in `bits`.
fn declared(bits: u32) -> Desired {
    let is = |at| bit(bits, at);
    let mut links: Vec<Link<IfName>> = Vec::new();
    let peer = LinkKind::veth(name("p1"));
    let mut pair = up(peer, "p0");
    let mut ifb = up(LinkKind::Ifb, "i0");
    if is(0) {
        links.push(up(LinkKind::Bridge(BridgeAttrs::default()), "br0"));
    }
    let master = |of: u32| Some((is(0) && is(of)).then(|| name("br0")));
    pair.master = master(1);
    ifb.master = master(2);
    pair.mtu = Some(if is(3) { 1400 } else { 1500 });
    links.extend([pair, ifb]);
    // Two objects that swap a property, which must be unique.
    let of_two = |exchanged: bool, at: usize| if exchanged { 1 - at } else { at };
    for at in 0..2 {
        let mode = MacvlanMode::Bridge;
        let kind = LinkKind::Macvlan(MacvlanAttrs::new(name("e1")).with_mode(mode));
        let mut link = up(kind, ["m0", "m1"][at]);
        let hardware = format!("02:00:00:00:84:0{}", of_two(is(4), at));
        link.address = Some(hardware.parse().unwrap());
        links.push(link);
        let id = of_two(is(5), at) as u32 + 1;
        let kind = LinkKind::Vxlan(VxlanAttrs::new(id).with_port(4789));
        links.push(up(kind, ["x0", "x1"][at]));
    }
    let mut addresses = Vec::new();
    for at in 0..2 {
        let dev = ["m0", "x0"][of_two(is(6), at)];
        addresses.push(address(dev, ["10.1.0.1/24", "10.2.0.1/24"][at]));
        let dev = ["m0", "x0"][of_two(is(7), at)];
        addresses.push(address(dev, ["fd01::1/64", "fd02::1/64"][at]));
    }
    if is(0) && is(8) {
        addresses.push(address("br0", "10.3.0.1/24"));
    }
    if is(9) {
        addresses.push(address("t0", "10.5.0.1/24"));
    }
    let mut routes = vec![
        via("10.84.0.0/16", "10.83.0.9"),
        via("fd84::/64", "fd83::9"),
        via("10.90.0.0/16", "10.1.0.9"),
        via("fd90::/64", "fd02::9"),
    ];
    if is(10) {
        let hop = NextHop::dev(name("t0"));
        routes.push(Route::new("10.6.0.0/16".parse().unwrap(), NextHops::One(hop)));
    }
    nothing().with_links(links).with_addresses(addresses).with_routes(routes)
}

/// Links' settings, and the state known of them.
#[derive(Default)]
struct Kept {
    source: Sysctl,
    ledger: trueup::sysctl::MemoryLedger,
}

impl Kept {
    /// Makes a pass over the settings. If it reports convergence, checks that they are as declared.
    /// Returns true if it converged.
    fn pass(&mut self, run: &mut Run, bits: u32) -> Result<bool, String> {
        let value = if bit(bits, 11) { "2" } else { "1" };
        let devices = ["p0", "m0", "x1", "i0"];
        let key = |dev: &str| format!("net/ipv4/conf/{dev}/rp_filter");
        let pairs: Vec<(String, &str)> = devices.iter().map(|dev| (key(dev), value)).collect();
        let pairs = pairs.iter().map(|(key, value)| (key.as_str(), *value));
        let desired = Settings::parse(pairs).map_err(|error| error.to_string())?;
        let here = trueup::sysctl::Namespace::current();
        let options = trueup::sysctl::Options::default();
        let report =
            self.source.reconcile(PassInput::new(&here, &desired, &mut self.ledger, &options));
        let report = report.map_err(|error| format!("the settings: {error}"))?;
        for op in report.ops() {
            run.say(format!("  {op}"));
        }
        for dev in devices.iter().filter(|_| report.converged()) {
            let path = format!("/proc/sys/{}", key(dev));
            let is = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            if is.trim() != value {
                return Err(format!("converged, but {path} is {is}"));
            }
        }
        Ok(report.converged())
    }
}
