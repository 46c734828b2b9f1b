//! Attacks on files to read and programs to run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use trueup_path::{Error, ErrorKind, Readers, TrustedUsers, open_any};

use crate::stage::{Stage, give_to, set_mode};

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn a_source_of_another_user_is_his_own_file() {
    let stage = Stage::new();
    let users = &stage.users;
    let own = stage.file("own", "his");
    assert_eq!(users.read_of_one_owner(&own, 10).unwrap(), b"his");
    assert_eq!(kind(users.read_of_one_owner(&own, 2)), ErrorKind::TooLarge);
    let shadow = stage.link("hosts", "/etc/shadow");
    assert_eq!(kind(users.read_of_one_owner(&shadow, 10_000)), ErrorKind::Refused);
    // A hard link to another owner's file, which some kernels allow.
    let second = stage.home().join("second");
    fs::hard_link(&own, &second).unwrap();
    assert_eq!(kind(users.read_of_one_owner(&own, 10)), ErrorKind::Refused);
    fs::remove_file(&second).unwrap();
    if stage.has_ours() {
        give_to(&own, 0);
        assert_eq!(kind(users.read_of_one_owner(&own, 10)), ErrorKind::Refused);
    }
}

#[test]
fn what_only_we_decide_is_neither_his_nor_writable_by_others() {
    let stage = Stage::new();
    let users = &stage.users;
    let his = stage.file("his", "x");
    let read = |path: &Path, readers| users.read_ours(path, readers, 10);
    assert_eq!(kind(read(&his, Readers::Everybody)), ErrorKind::Refused);
    if !stage.has_ours() {
        return;
    }
    let ours = stage.ours().join("file");
    fs::write(&ours, "x").unwrap();
    for (mode, readers, is_read) in [
        (0o600, Readers::Us, true),
        (0o400, Readers::Us, true),
        (0o640, Readers::Us, false),
        (0o644, Readers::Us, false),
        (0o644, Readers::Everybody, true),
        (0o646, Readers::Everybody, false),
    ] {
        set_mode(&ours, mode);
        assert_eq!(read(&ours, readers).is_ok(), is_read, "{mode:o}");
    }
    set_mode(&ours, 0o600);
    give_to(&ours, stage.attacker);
    assert_eq!(kind(read(&ours, Readers::Us)), ErrorKind::Refused);
    give_to(&ours, 0);
    set_mode(&stage.ours(), 0o777);
    assert_eq!(kind(read(&ours, Readers::Us)), ErrorKind::Refused);
    // No other user can exchange it in a folder such as /tmp.
    set_mode(&stage.ours(), 0o1777);
    assert!(read(&ours, Readers::Us).is_ok());
    fs::hard_link(&ours, stage.ours().join("second")).unwrap();
    assert_eq!(kind(read(&ours, Readers::Us)), ErrorKind::Refused);
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let stage = Stage::new();
    let fifo = stage.home().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    stage.give(&fifo);
    let folder = stage.folder("folder");
    for path in [&fifo, &folder, Path::new("/dev/zero"), Path::new("/dev/tty")] {
        assert_eq!(kind(stage.users.read_of_one_owner(path, 10)), ErrorKind::NotRegular);
        assert_eq!(kind(stage.users.place(path).unwrap().open()), ErrorKind::NotRegular);
        assert_eq!(kind(open_any(path)), ErrorKind::NotRegular);
    }
    let endless = stage.file("endless", "");
    fs::File::options().write(true).open(&endless).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(kind(stage.users.read_of_one_owner(&endless, 1 << 20)), ErrorKind::TooLarge);
}

#[test]
fn a_program_that_others_can_change_is_refused() {
    let stage = Stage::new();
    let program = |path: &Path| stage.users.program(path.as_os_str());
    program(Path::new("sh")).unwrap();
    program(Path::new("/bin/sh")).unwrap();
    assert!(program(Path::new("no-such-program")).unwrap_err().is_not_found());
    let his = stage.file("script", "#!/bin/sh\n");
    set_mode(&his, 0o755);
    assert_eq!(kind(program(&his)), ErrorKind::Refused);
    if !stage.has_ours() {
        return;
    }
    let ours = stage.ours().join("script");
    fs::write(&ours, "#!/bin/sh\n").unwrap();
    for (mode, is_run) in [(0o755, true), (0o700, true), (0o777, false), (0o757, false)] {
        set_mode(&ours, mode);
        assert_eq!(program(&ours).is_ok(), is_run, "{mode:o}");
    }
    set_mode(&ours, 0o755);
    let link = stage.link("run", &ours);
    assert_eq!(kind(program(&link)), ErrorKind::Refused);
    give_to(&ours, stage.attacker);
    assert_eq!(kind(program(&ours)), ErrorKind::Refused);
}

/// Returns an access control list in which a user may read, as systemd gives a credential to a
/// service's user; the file's mode is 0440.
fn acl(user: u32) -> Vec<u8> {
    const ANYBODY: u32 = u32::MAX;
    let entries = [
        (0x01_u16, 4_u16, ANYBODY),
        (0x02, 4, user),
        (0x04, 0, ANYBODY),
        (0x10, 4, ANYBODY),
        (0x20, 0, ANYBODY),
    ];
    let entries = entries.into_iter().flat_map(|(tag, rights, id)| {
        let (tag, rights) = (tag.to_le_bytes(), rights.to_le_bytes());
        [&tag[..], &rights, &id.to_le_bytes()].concat()
    });
    [2, 0, 0, 0].into_iter().chain(entries).collect()
}

#[test]
fn a_secret_may_name_us_in_its_access_control_list_and_no_other_user() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let secret = stage.ours().join("secret");
    fs::write(&secret, "x").unwrap();
    set_mode(&secret, 0o400);
    let service = TrustedUsers::with_user(4_243);
    let read = || service.read_ours(&secret, Readers::Us, 10);
    for (user, is_read) in [(4_243, true), (4_242, false)] {
        let flags = rustix::fs::XattrFlags::empty();
        let set = rustix::fs::setxattr(&secret, "system.posix_acl_access", &acl(user), flags);
        if set == Err(rustix::io::Errno::OPNOTSUPP) {
            return;
        }
        set.unwrap();
        let mode = fs::metadata(&secret).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode, read().is_ok()), (0o440, is_read), "{user}: {:?}", read());
    }
    fs::remove_file(&secret).unwrap();
    fs::write(&secret, "x").unwrap();
    set_mode(&secret, 0o440);
    assert_eq!(kind(read()), ErrorKind::Refused, "a group without a list");
}
