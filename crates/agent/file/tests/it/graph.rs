//! `[[file]]` and `[[exec]]`.

use std::time::Duration;

use trueup_file::{Exec, File, FileContent, NodeRef, TableNames};

fn parse(text: &str) -> Result<File, String> {
    let file = File::parse("f", text.as_bytes(), &TableNames::default());
    file.map_err(|error| error.to_string())
}

fn read(text: &str) -> File {
    parse(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn all_keys_are_read() {
    let toml = read(
        "route = []\n\
         [[file]]\n\
         name = \"resolv\"\n\
         path = \"/etc/resolv.conf\"\n\
         content = \"nameserver 10.0.0.53\\n\"              # or source = \"FILE\"\n\
         mode = \"0644\"\n\
         after = [\"route\"]\n\
         [[exec]]\n\
         name = \"reload-dns\"\n\
         command = [\"/usr/bin/systemctl\", \"reload\", \"dns\"] # no shell\n\
         after = [\"route\", \"file.resolv\"]                  # kinds, or kind.name\n\
         on = [\"file.resolv\"]\n\
         check = [\"/usr/bin/test\", \"-e\", \"/run/dns.ok\"]\n\
         every = 30\n\
         timeout = 10\n\
         semaphores = [\"reload:1\"]\n\
         environment = [\"http_proxy\"]\n\
         ambient = true\n\
         netns = true\n",
    );
    let json = read(
        r#"{ "route": [],
             "file": [ { "name": "resolv", "path": "/etc/resolv.conf",
                         "content": "nameserver 10.0.0.53\n", "mode": "0644",
                         "after": [ "route" ] } ],
             "exec": [ { "name": "reload-dns",
                         "command": [ "/usr/bin/systemctl", "reload", "dns" ],
                         "after": [ "route", "file.resolv" ], "on": [ "file.resolv" ],
                         "check": [ "/usr/bin/test", "-e", "/run/dns.ok" ],
                         "every": 30, "timeout": 10, "semaphores": [ "reload:1" ],
                         "environment": [ "http_proxy" ], "ambient": true, "netns": true } ] }"#,
    );
    assert_eq!((&toml.files, &toml.execs), (&json.files, &json.execs));
    let [file] = &toml.files.unwrap()[..] else { panic!() };
    assert_eq!((&*file.name, file.mode), ("resolv", 0o644));
    assert_eq!(file.path.to_str(), Some("/etc/resolv.conf"));
    assert_eq!(file.after, [NodeRef::Section("route".to_owned())]);
    let text = "nameserver 10.0.0.53\n".to_owned();
    assert_eq!(file.content, FileContent::Text(text));
    let [exec] = &toml.execs.unwrap()[..] else { panic!() };
    let resolv = NodeRef::File("resolv".to_owned());
    let Exec {
        name,
        command,
        after,
        on,
        check,
        every,
        timeout,
        semaphores,
        environment,
        ambient,
        netns,
        ..
    } = exec;
    assert_eq!(name, "reload-dns");
    assert_eq!(*command, ["/usr/bin/systemctl", "reload", "dns"]);
    assert_eq!(*after, [NodeRef::Section("route".to_owned()), resolv.clone()]);
    assert_eq!(*on, [resolv]);
    let words = check.as_ref().unwrap();
    assert_eq!(*words, ["/usr/bin/test", "-e", "/run/dns.ok"]);
    assert_eq!(*every, Some(Duration::from_secs(30)));
    assert_eq!(*timeout, Duration::from_secs(10));
    assert_eq!(*semaphores, [("reload".to_owned(), 1)]);
    assert_eq!(*environment, ["http_proxy"]);
    assert!(*ambient && *netns);
}

#[test]
fn an_owner_is_a_name_or_a_number_of_this_host() {
    let owner = |owner: &str| {
        let keys = format!("name = \"a\"\npath = \"/a\"\ncontent = \"\"\nowner = \"{owner}\"");
        read(&format!("[[file]]\n{keys}")).files.unwrap()[0].owner
    };
    let expected = |user, group| Some((user, group));
    assert_eq!(owner("root"), expected(0, None));
    assert_eq!(owner("root:root"), expected(0, Some(0)));
    assert_eq!(owner("7:root"), expected(7, Some(0)));
    assert_eq!(owner("root:007"), expected(0, Some(7)));
    assert_eq!(owner("4294967294"), expected(u32::MAX - 1, None));
}

#[test]
fn what_is_left_out_has_its_default() {
    let file = read(
        "[[file]]\nname = \"a\"\npath = \"/a\"\nsource = \"/b\"\n\
         [[exec]]\nname = \"a\"\ncommand = [\"/a\"]\non = [\"file\"]\n",
    );
    let files = file.files.unwrap();
    assert_eq!(files[0].mode, 0o644);
    assert_eq!(files[0].content, FileContent::Source("/b".into()));
    let exec = &file.execs.unwrap()[0];
    assert_eq!(exec.timeout, Duration::from_secs(60));
    assert!(exec.after.is_empty() && exec.check.is_none() && exec.semaphores.is_empty());
    assert!(exec.environment.is_empty() && !exec.ambient && exec.every.is_none());
    // An absent section is unmanaged, an empty one means no files.
    let file = read("file = []\n");
    assert_eq!((file.files, file.execs), (Some(Vec::new()), None));
}

#[test]
fn a_name_of_a_reference_may_have_dots_and_each_section_of_the_file_counts() {
    let file = read(
        "file = [{ name = \"a.b\", path = \"/a\", content = \"\" }]\n\
         [[exec]]\nname = \"x\"\ncommand = [\"/a\"]\non = [\"file.a.b\", \"sysctl\", \"export\"]\n\
         [[exec]]\nname = \"y\"\ncommand = [\"/a\"]\non = [\"exec.x\"]\nafter = [\"export\"]\n\
         [sysctl]\nnet.ipv4.ip_forward = 1\n\
         [world]\nstore = \"embedded\"\nhost = \"a\"\n\
         [[export]]\nname = \"a\"\nroute = { dst = \"10.0.0.0/8\", via = \"10.0.0.1\" }\n",
    );
    let execs = file.execs.unwrap();
    let all: Vec<String> = execs[0].on.iter().map(ToString::to_string).collect();
    assert_eq!(all, ["file.a.b", "sysctl", "export"]);
    let [after, on] = [&execs[1].after, &execs[1].on].map(|it| it[0].to_string());
    assert_eq!([after, on], ["export", "exec.x"]);
}

#[test]
fn a_semaphore_twice_is_one() {
    let exec = |semaphores: &str| {
        let keys = format!("name = \"a\"\ncommand = [\"/a\"]\ncheck = [\"/b\"]\n{semaphores}");
        parse(&format!("[[exec]]\n{keys}"))
    };
    let file = exec("semaphores = [\"b:2\", \"a:1\", \"b:2\"]").unwrap();
    assert_eq!(file.execs.unwrap()[0].semaphores.len(), 2);
    for wrong in ["a", "a:", ":1", "a:0", "a:+1", "a:1000001", "a b:1", "a:1:1"] {
        let error = exec(&format!("semaphores = [{wrong:?}]")).unwrap_err();
        let expected = format!("f:5:15: semaphores: `{wrong}` is no semaphore: ");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_wrong_reference_in_many_commands_is_reported_a_few_times() {
    let exec = |n| {
        let on = format!("on = [\"exec.y{n}\"]");
        format!("[[exec]]\nname = \"x{n}\"\ncommand = [\"/a\"]\n{on}\n")
    };
    let text: String = (0..2_000).map(exec).collect();
    let error = parse(&text).unwrap_err();
    assert_eq!(error.lines().count(), 21, "{error}");
}

#[test]
fn one_file_has_one_path() {
    let two = |one: &str, other: &str| {
        format!(
            "file = [{{ name = \"a\", path = {one:?}, content = \"\" }}, \
             {{ name = \"b\", path = {other:?}, content = \"\" }}]"
        )
    };
    for other in ["/d//x", "/d/./x", "//d/x"] {
        let wrong = parse(&two("/d/x", other)).unwrap_err();
        assert!(wrong.contains("has the path /d/x as well"), "{wrong}");
    }
    for other in ["/d/../d/x", "/../x"] {
        let wrong = parse(&two("/d/x", other)).unwrap_err();
        assert!(wrong.contains("has `..` in it"), "{wrong}");
    }
    let wrong = parse(&two("/d/x", "/d/.")).unwrap_err();
    assert!(wrong.contains("no absolute path of a file"), "{wrong}");
}
