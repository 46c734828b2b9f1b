use super::*;

#[test]
fn the_form_of_rt_tables_is_read_as_iproute2_reads_it() {
    let mut tables = TableNames::default();
    tables.add("# names\n100 blue # ours\n0x65\tgreen\n0 unspec\nx y\n200\n4294967296 big\n");
    assert_eq!(tables.number("blue"), Some(100));
    assert_eq!(tables.number("green"), Some(0x65));
    assert_eq!(tables.number("main"), Some(254));
    let names: Vec<_> = tables.names().collect();
    assert_eq!(names, ["blue", "default", "green", "local", "main"]);
}

#[test]
fn a_protocol_of_another_program_is_no_marker_and_free_ones_are_named() {
    let mut tables = TableNames::default();
    assert_eq!(tables.claim_on(116), None);
    tables.add_protocols("116 trueup\n# mine\n120 calico\n0x79 overlay\n300 none\n");
    assert_eq!((tables.claim_on(116), tables.claim_on(122)), (None, None));
    for (number, name) in [(12, "bird"), (18, "keepalived"), (120, "calico"), (121, "overlay")] {
        let message = tables.claim_on(number).unwrap();
        for part in [name, "100 to 119, 122 to 185 are free", "protocol_is_mine"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn files_of_a_directory_come_in_order_after_the_main_one() {
    let base = std::env::temp_dir().join(format!("trueup-tables-{}", std::process::id()));
    fs::create_dir_all(base.join("rt_tables.d")).unwrap();
    for name in ["b.conf", "a.conf", "skipped.txt"] {
        fs::write(base.join("rt_tables.d").join(name), "").unwrap();
    }
    let names: Vec<_> = name_files(&base, "rt_tables")
        .unwrap()
        .iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["rt_tables", "a.conf", "b.conf"]);
    fs::remove_dir_all(base).unwrap();
}

#[test]
fn a_file_that_cannot_be_read_now_or_is_too_large_is_named() {
    let path = std::env::temp_dir().join(format!("trueup-large-{}", std::process::id()));
    fs::write(&path, "\n".repeat(MAX_BYTES as usize) + "100 blue\n").unwrap();
    let error = names_of(&path).unwrap_err();
    let shown = path.display().to_string();
    assert!(error.to_string().starts_with(&format!("{shown}: ")), "{error}");
    assert!(error.to_string().contains("larger than 1 MiB") && !error.is_transient());
    fs::write(&path, "\n".repeat(MAX_BYTES as usize - 9) + "100 blue\n").unwrap();
    let mut tables = TableNames::default();
    tables.add(&names_of(&path).unwrap());
    assert_eq!(tables.number("blue"), Some(100));
    fs::remove_file(&path).unwrap();

    let none: io::Result<()> = Err(io::Error::from_raw_os_error(libc::EMFILE));
    let error = skip_unreadable(&path, none).unwrap_err();
    assert!(error.to_string().starts_with(&shown) && error.is_transient());
}
