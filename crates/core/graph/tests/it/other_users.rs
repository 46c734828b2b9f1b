//! Attacks by another user of the host on the files that a vertex keeps.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use trueup_graph::{Failure, File, RunContext, Verdict, Vertex, VertexSpec};
use trueup_reconcile::{ErrorClass, Hints};

use crate::stage::{Stage, give_to, set_mode};
use crate::support::{BOUND, start, until, vertex};

/// Calls a function in a run of a vertex.
pub(crate) fn in_run<T: Send + 'static>(call: impl FnOnce(&RunContext) -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    // Taken together, so that a panic of the call closes the channel.
    let mut once = Some((call, send));
    let run = move |context: &RunContext, _: bool| {
        if let Some((call, send)) = once.take() {
            send.send(call(context)).unwrap();
        }
        Ok(Verdict::InPlace)
    };
    let _driver = start(1, [vertex(VertexSpec::new("caller"), run)]);
    receive.recv().unwrap()
}

/// Applies as a driver does: records the check's result first.
pub(crate) fn apply(context: &RunContext, file: &mut File) -> Result<Verdict, Failure> {
    match file.check_apply(context, false)? {
        Verdict::WouldChange => file.check_apply(context, true),
        verdict => Ok(verdict),
    }
}

/// Declares a file. Only root can name the users whom the library takes for ours.
pub(crate) fn declared(stage: &Stage, path: &Path, content: &str) -> File {
    let owner = (!stage.has_ours()).then_some(stage.attacker);
    File::new(path, content).with_users(stage.users.clone()).with_owner(owner, None)
}

/// Applies a file, and returns it.
fn applied(mut file: File) -> (File, Result<Verdict, Failure>) {
    in_run(move |context| {
        let verdict = apply(context, &mut file);
        (file, verdict)
    })
}

fn reversed(mut file: File) -> Result<Verdict, Failure> {
    in_run(move |context| file.reverse(context))
}

fn refused(result: Result<Verdict, Failure>, named: &Path) {
    let failure = result.unwrap_err();
    assert_eq!(failure.class, ErrorClass::Conflict, "{failure}");
    assert!(failure.to_string().contains(named.to_str().unwrap()), "{failure}");
}

fn content(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid())
}

/// The other user's attack: `mv app app2; ln -s VICTIM app`.
fn link_instead(stage: &Stage, victim: &Path) {
    fs::rename(stage.home().join("app"), stage.home().join("app2")).unwrap();
    stage.link("app", victim);
}

/// A folder that the attacker does not own, which must stay as it is.
fn victim(stage: &Stage) -> std::path::PathBuf {
    match stage.has_ours() {
        true => stage.ours(),
        false => "/etc".into(),
    }
}

#[test]
fn a_link_of_another_user_for_the_folder_is_refused() {
    let stage = Stage::new();
    let app = stage.folder("app");
    let victim = victim(&stage);
    if stage.has_ours() {
        fs::write(victim.join("conf"), "precious").unwrap();
    }
    let file = declared(&stage, &app.join("conf"), "new");
    applied(file.clone()).1.unwrap();
    assert_eq!(content(&app.join("conf")), "new");

    link_instead(&stage, &victim);
    let user = stage.has_ours().then_some(stage.attacker);
    refused(applied(file.clone().with_owner(user, None)).1, &app);
    // Nothing is watched there, either.
    let (count, mut watched) = (Arc::new(AtomicU32::new(0)), file.clone());
    let counted = Arc::clone(&count);
    let hints = Hints::new(move || _ = counted.fetch_add(1, Ordering::SeqCst));
    watched.watch(hints, Waker::noop().clone()).unwrap();
    // It watches until it is dropped.
    let (_watched, result) = applied(watched);
    refused(result, &app);
    if !stage.has_ours() {
        return;
    }
    fs::write(victim.join("conf"), "precious").unwrap();
    fs::write(stage.home().join("app2/conf"), "new").unwrap();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(content(&victim.join("conf")), "precious");
    assert_eq!(owner(&victim.join("conf")), (0, 0));

    // A file of equal content is not given away, either.
    fs::write(victim.join("conf"), "new").unwrap();
    refused(applied(file.with_owner(user, None).with_mode(0o666)).1, &app);
    assert_eq!(owner(&victim.join("conf")), (0, 0));
    assert_eq!(mode(&victim.join("conf")), 0o644);
}

/// Returns hints without a receiver.
#[test]
fn undeclaring_removes_nothing_through_a_link_of_another_user() {
    let stage = Stage::new();
    let app = stage.folder("app");
    let (file, verdict) = applied(declared(&stage, &app.join("conf"), "made"));
    assert_eq!(verdict, Ok(Verdict::Changed));
    let victim = victim(&stage);
    if stage.has_ours() {
        fs::write(victim.join("conf"), "made").unwrap();
    }
    link_instead(&stage, &victim);
    refused(reversed(file.clone()), &app);
    if stage.has_ours() {
        assert_eq!(content(&victim.join("conf")), "made");
    }
    // Once the folder is back, the file is removed.
    fs::remove_file(&app).unwrap();
    fs::rename(stage.home().join("app2"), &app).unwrap();
    assert_eq!(reversed(file), Ok(Verdict::Changed));
    assert_eq!(fs::read_dir(&app).unwrap().count(), 0);
}

#[test]
fn the_driver_watches_the_folder_of_another_user_and_not_where_his_link_leads() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let app = stage.folder("app");
    let victim = victim(&stage);
    fs::write(victim.join("conf"), "precious").unwrap();
    let file = declared(&stage, &app.join("conf"), "new");
    let file = file.with_owner(Some(stage.attacker), None);
    let spec = VertexSpec::new("file").with_retry(u32::MAX, std::time::Duration::from_millis(10));
    let driver = start(2, [(spec, Box::new(file) as Box<dyn Vertex>)]);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(content(&app.join("conf")), "new");
    link_instead(&stage, &victim);
    until("it is refused", || {
        let message = driver.explain("file").unwrap().message;
        message.is_some_and(|it| it.contains("is not followed"))
    });
    driver.replace([]).unwrap();
    until("the removal is refused", || driver.snapshot().to_string().contains("is not followed"));
    assert_eq!(content(&victim.join("conf")), "precious");
    assert_eq!(owner(&victim.join("conf")), (0, 0));
    // Put the folder back in one step: without a folder, there is nothing to remove.
    let (app2, exchange) = (stage.home().join("app2"), RenameFlags::EXCHANGE);
    renameat_with(CWD, &app2, CWD, &app, exchange).unwrap();
    until("the file is removed", || !app.join("conf").exists());
    driver.wait_converged(BOUND).unwrap();
}

#[test]
fn a_hard_link_of_another_user_to_a_file_of_root_is_replaced_and_not_given_away() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let precious = stage.ours().join("precious");
    let conf = stage.folder("app").join("conf");
    for in_place in ["same", "another"] {
        fs::write(&precious, in_place).unwrap();
        fs::hard_link(&precious, &conf).unwrap();
        let file = declared(&stage, &conf, "same").with_mode(0o666);
        let (_, verdict) = applied(file.with_owner(Some(stage.attacker), Some(stage.attacker)));
        assert_eq!(verdict, Ok(Verdict::Changed));
        assert_eq!(owner(&conf), (stage.attacker, stage.attacker));
        assert_eq!((content(&conf), mode(&conf)), ("same".into(), 0o666));
        assert_eq!(owner(&precious), (0, 0));
        assert_eq!((content(&precious), mode(&precious)), (in_place.into(), 0o644));
        fs::remove_file(&conf).unwrap();
    }
    // The same in our own folder: another user may own the other name.
    let ours = stage.ours().join("conf");
    fs::write(&ours, "same").unwrap();
    let second = stage.home().join("second");
    fs::hard_link(&ours, &second).unwrap();
    applied(declared(&stage, &ours, "same").with_owner(Some(stage.attacker), None)).1.unwrap();
    assert_eq!(owner(&ours).0, stage.attacker);
    assert_eq!(owner(&second), (0, 0));
}

#[test]
fn what_another_user_has_made_first_becomes_ours() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let sticky = stage.ours().join("sticky");
    let shared = stage.ours().join("shared");
    for (folder, folder_mode) in [(&sticky, 0o1777), (&shared, 0o777)] {
        fs::create_dir(folder).unwrap();
        set_mode(folder, folder_mode);
    }
    let home = stage.home();
    for folder in [&sticky, &shared, &home] {
        let secret = folder.join("secret");
        for (before, old_mode, declared_mode, new_mode) in [
            // An empty file, and one that has the content already.
            ("", 0o600, Some(0o600), 0o600),
            ("content", 0o600, Some(0o600), 0o600),
            // Without a declared mode, the attacker's mode is not kept.
            ("content", 0o4777, None, 0o644),
            ("", 0o666, None, 0o644),
        ] {
            fs::write(&secret, before).unwrap();
            chown(&secret, Some(stage.attacker), Some(stage.attacker)).unwrap();
            set_mode(&secret, old_mode);
            // The attacker keeps it open.
            let opened = fs::File::options().append(true).open(&secret).unwrap();
            let file = declared(&stage, &secret, "content");
            let file = match declared_mode {
                Some(mode) => file.with_mode(mode),
                None => file,
            };
            let (file, verdict) = applied(file);
            assert_eq!(verdict, Ok(Verdict::Changed), "{secret:?}");
            assert_eq!(owner(&secret), (0, 0), "{secret:?}");
            assert_eq!(mode(&secret), new_mode, "{secret:?}");
            std::io::Write::write_all(&mut &opened, b"more").unwrap();
            assert_eq!(content(&secret), "content");
            assert_eq!(applied(file).1, Ok(Verdict::InPlace));
            fs::remove_file(&secret).unwrap();
        }
    }
}

#[test]
fn what_root_or_the_declared_owner_has_made_keeps_what_is_not_declared() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let group = 4_343;
    // In our own folder everything is kept, because no other user can have put it there.
    let ours = stage.ours().join("conf");
    fs::write(&ours, "old").unwrap();
    chown(&ours, Some(stage.attacker), Some(group)).unwrap();
    set_mode(&ours, 0o664);
    applied(declared(&stage, &ours, "new")).1.unwrap();
    assert_eq!(owner(&ours), (stage.attacker, group));
    assert_eq!(mode(&ours), 0o664);
    // A file in another user's folder that root has made and others can write.
    for (user, declared_user) in [(0, None), (stage.attacker, Some(stage.attacker))] {
        let conf = stage.home().join("conf");
        for (before, after) in [("old", Verdict::Changed), ("new", Verdict::InPlace)] {
            fs::write(&conf, before).unwrap();
            chown(&conf, Some(user), Some(group)).unwrap();
            set_mode(&conf, 0o640);
            let file = declared(&stage, &conf, "new").with_owner(declared_user, None);
            assert_eq!(applied(file.clone()).1, Ok(after));
            assert_eq!((owner(&conf), mode(&conf)), ((user, group), 0o640));
            set_mode(&conf, 0o662);
            assert_eq!(applied(file).1, Ok(Verdict::Changed));
            assert_eq!((owner(&conf), mode(&conf)), ((user, group), 0o640));
        }
        fs::remove_file(&conf).unwrap();
    }
    // A new file has our group, even if the folder would set another one.
    let setgid = stage.folder("setgid");
    chown(&setgid, None, Some(group)).unwrap();
    set_mode(&setgid, 0o2755);
    let conf = setgid.join("conf");
    applied(declared(&stage, &conf, "secret").with_mode(0o640)).1.unwrap();
    assert_eq!(owner(&conf), (0, 0));
}

#[test]
fn an_owner_that_changes_takes_no_open_file_along() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let conf = stage.ours().join("conf");
    fs::write(&conf, "same").unwrap();
    give_to(&conf, stage.attacker);
    let opened = fs::File::options().append(true).open(&conf).unwrap();
    applied(declared(&stage, &conf, "same").with_owner(Some(0), Some(0))).1.unwrap();
    assert_eq!(owner(&conf), (0, 0));
    std::io::Write::write_all(&mut &opened, b"more").unwrap();
    assert_eq!(content(&conf), "same");
}

#[test]
fn a_source_of_another_user_leads_to_no_file_of_root() {
    let stage = Stage::new();
    let target = match stage.has_ours() {
        true => stage.ours().join("hosts"),
        false => stage.home().join("hosts.new"),
    };
    let copied = |source: &Path| {
        let file = File::from_source(&target, source).with_users(stage.users.clone());
        applied(file).1
    };
    let shadow = stage.link("hosts", "/etc/shadow");
    refused(copied(&shadow), &shadow);
    assert!(!target.exists());
    // By a link in place of its folder.
    let etc = stage.link("etc", "/etc");
    refused(copied(&etc.join("shadow")), &etc);
    // A FIFO and a device, which must not block or be read without end.
    let fifo = stage.home().join("fifo");
    let fifo_mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, fifo_mode).unwrap();
    stage.give(&fifo);
    refused(copied(&fifo), &fifo);
    refused(copied(Path::new("/dev/zero")), Path::new("/dev/zero"));
    let endless = stage.file("endless", "");
    let file = fs::File::options().write(true).open(&endless).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(copied(&endless).unwrap_err().class, ErrorClass::Invalid);
    assert!(!target.exists());
    // Another user's file in a folder that everybody can add to.
    if stage.has_ours() {
        let sticky = stage.ours().join("sticky");
        fs::create_dir(&sticky).unwrap();
        set_mode(&sticky, 0o1777);
        let source = sticky.join("source");
        fs::write(&source, "his").unwrap();
        give_to(&source, stage.attacker);
        refused(copied(&source), &source);
        // A hard link to a file of root, which some kernels allow.
        let secret = stage.ours().join("secret");
        fs::write(&secret, "secret").unwrap();
        let second = stage.home().join("second");
        fs::hard_link(&secret, &second).unwrap();
        refused(copied(&second), &second);
        assert!(!target.exists());
        // In his own folder, the user decides about his own file.
        let own = stage.file("own", "his");
        assert_eq!(copied(&own), Ok(Verdict::Changed));
        assert_eq!(content(&target), "his");
    }
}
