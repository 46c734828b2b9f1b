//! Five hosts, each in a namespace, exchange routes through etcd, while agents and members of etcd
//! are killed and a host is cut off: `cargo xtask demo --world`. Each host runs the program `trueup
//! watch`. The demo prints the announcements of the hosts' kernels as they come, and compares them
//! with the expected changes. If any other route comes or goes, it ends with an error.

mod host;
mod ping;
mod routes;
mod world;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use trueup_testkit::Action;

use world::{World, say};

/// The error is a message for the user.
type Result<T> = std::result::Result<T, String>;

/// The name of the bridge between all hosts.
const BRIDGE: &str = "hosts";
/// The times that the demo waits.
struct Times {
    /// The time after which a silent host counts as dead.
    ttl: Duration,
    /// The time that a killed member of etcd stays away.
    outage: Duration,
    /// The time that a host is cut off.
    cut: Duration,
    /// True if times are only printed, not checked: a busy machine may exceed a bound.
    is_test: bool,
}

fn main() -> ExitCode {
    let seconds = Duration::from_secs;
    let times = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => Times { ttl: seconds(5), outage: seconds(15), cut: seconds(60), is_test: false },
        [option] if option == "--short" => Times {
            // On a busy machine an agent, or etcd's disk, may stall.
            ttl: seconds(12),
            outage: seconds(3),
            cut: seconds(8),
            is_test: true,
        },
        _ => {
            eprintln!("world-demo: takes --short or nothing");
            return ExitCode::from(64); // EX_USAGE
        }
    };
    match run(&times) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("world-demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(times: &Times) -> Result<()> {
    let begun = Instant::now();
    // The process must have one thread, and no other exists yet.
    trueup_testkit::enter().map_err(|error| error.to_string())?;
    title("Five hosts on a bridge, and three members of etcd, each in a namespace of its own.");
    let mut world = World::start(times.ttl, times.is_test)?;
    show(&world);
    let ended = steps(&mut world, times);
    ended.map_err(|error| format!("{error}\n{}", world.logs()))?;
    let seconds = begun.elapsed().as_secs();
    title(&format!("All of it was as said, in {seconds} s. The namespaces end here."));
    Ok(())
}

fn steps(world: &mut World, times: &Times) -> Result<()> {
    begin(world)?;
    host_dies(world, times)?;
    host_comes_back(world)?;
    member_dies(world, times)?;
    leader_dies(world, times)?;
    host_is_cut_off(world, times)?;
    prefix_changes(world)
}

/// Prints the hosts, and one of the files.
fn show(world: &World) {
    for host in &world.hosts {
        let route = host.route();
        println!("host {}: {}, pods in {}", host.name, route.via, route.dst);
    }
    println!("etcd: {}", world.cluster.config().endpoints.join(", "));
    let host = &world.hosts[0];
    println!("\nThe file of {}. The others have their own name, prefix and address:\n", host.name);
    for line in host.text().lines() {
        println!("    {line}");
    }
}

fn begin(world: &mut World) -> Result<()> {
    title("On each host begins `trueup watch FILE`. Each gets the routes to the four others.");
    let begun = Instant::now();
    let mut expected = Vec::new();
    for (name, route) in exports(world) {
        world.start_agent(name)?;
        expected.extend(world.at_others(name, Action::New, &route));
    }
    world.follow(begun, expected, Duration::ZERO)?;
    world.ping_all()?;
    world.show_why("a", "b")
}

fn host_dies(world: &mut World, times: &Times) -> Result<()> {
    title("The agent of c is killed. Its routes go everywhere when its lease ends.");
    let route = world.host("c")?.route();
    let expected = world.at_others("c", Action::Del, &route);
    let killed = Instant::now();
    world.host("c")?.kill()?;
    say(killed, "SIGKILL");
    let gone = world.follow(killed, expected, Duration::ZERO)?;
    in_time(gone, times)
}

fn host_comes_back(world: &mut World) -> Result<()> {
    title("The agent of c begins again. What it had in the kernel stayed, and it deletes nothing.");
    let route = world.host("c")?.route();
    let expected = world.at_others("c", Action::New, &route);
    let begun = Instant::now();
    world.start_agent("c")?;
    world.follow(begun, expected, Duration::ZERO)?;
    world.ping_all()
}

fn member_dies(world: &mut World, times: &Times) -> Result<()> {
    let leader = world.cluster.wait_for_leader().map_err(|error| error.to_string())?;
    let member = (leader + 1) % world.cluster.size();
    title(&format!("m{member} of etcd is killed. No route changes."));
    member_is_down(world, member, times.outage)
}

fn leader_dies(world: &mut World, times: &Times) -> Result<()> {
    let leader = world.cluster.wait_for_leader().map_err(|error| error.to_string())?;
    title(&format!("m{leader}, the leader of etcd, is killed. No route changes."));
    // Longer than a lease lives.
    member_is_down(world, leader, times.outage.max(times.ttl + Duration::from_secs(1)))
}

/// Kills a member for `time`, during which no route may change, and starts it again.
fn member_is_down(world: &mut World, member: usize, time: Duration) -> Result<()> {
    let failed = |error: std::io::Error| error.to_string();
    let killed = Instant::now();
    world.cluster.kill(member).map_err(failed)?;
    say(killed, "SIGKILL");
    let leader = world.cluster.wait_for_leader().map_err(failed)?;
    say(killed, &format!("m{leader} leads"));
    world.follow(killed, Vec::new(), time)?;
    say(killed, "no route has changed; it is started again");
    world.cluster.restart(member).map_err(failed)?;
    world.wait_for_member(member, killed)?;
    say(killed, "it answers");
    world.follow(killed, Vec::new(), Duration::ZERO).map(drop)
}

fn host_is_cut_off(world: &mut World, times: &Times) -> Result<()> {
    title("The link of e to the bridge goes down. It keeps its routes, and the others lose e's.");
    let route = world.host("e")?.route();
    let (gone, back) =
        (world.at_others("e", Action::Del, &route), world.at_others("e", Action::New, &route));
    let cut = Instant::now();
    let host = world.host("e")?;
    host.output();
    host.node.cut();
    say(cut, "down");
    let last = world.follow(cut, gone, Duration::ZERO)?;
    in_time(last, times)?;
    world.wait_for_line("e", "cut off", cut)?;
    world.follow(cut, Vec::new(), times.cut)?;
    let kept = world.host("e")?.routes().len();
    say(cut, &format!("e has kept its {kept} routes"));

    title("The link comes up. e exports again.");
    let up = Instant::now();
    world.host("e")?.node.heal();
    say(up, "up");
    world.follow(up, back, Duration::ZERO)?;
    world.wait_for_line("e", "the store is reached", up)?;
    world.ping_all()
}

fn prefix_changes(world: &mut World) -> Result<()> {
    title("The file of a gets another prefix. All follow.");
    let host = world.host("a")?;
    let before = host.route();
    let changed = Instant::now();
    host.set_subnet(11)?;
    let after = host.route();
    say(changed, &format!("{} instead of {}", after.dst, before.dst));
    let mut expected = world.at_others("a", Action::Del, &before);
    expected.extend(world.at_others("a", Action::New, &after));
    world.follow(changed, expected, Duration::ZERO)?;
    world.ping_all()
}

/// Returns the hosts' names, and their exported routes.
fn exports(world: &World) -> Vec<(&'static str, routes::Route)> {
    let hosts = world.hosts.iter();
    hosts.map(|host| (host.name, host.route())).collect()
}

/// Fails if a dead host's routes were deleted later than its lease allows.
fn in_time(time: Duration, times: &Times) -> Result<()> {
    // Its time to live, doubled for a store that ends leases late.
    let bound = 2 * times.ttl;
    let said = format!("gone after {time:.1?}, where {bound:?} are allowed");
    println!("             {said}");
    if time <= bound || times.is_test { Ok(()) } else { Err(said) }
}

/// Returns the path of a program built with this one.
fn beside(name: &str) -> Result<PathBuf> {
    let this = env::current_exe().map_err(|error| format!("the path of the demo: {error}"))?;
    let path = this.with_file_name(name);
    if path.is_file() { Ok(path) } else { Err(format!("{} was not built", path.display())) }
}

fn title(text: &str) {
    println!("\n== {text}");
}
