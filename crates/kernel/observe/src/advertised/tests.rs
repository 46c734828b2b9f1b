use super::*;

#[test]
fn a_row_of_the_kernel_is_read() {
    let line = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                fe80000000000000021122fffe334455 00000400 00000001 00000000 00450003     eth0";
    let (row, flags) = Row::parse(line).unwrap();
    assert_eq!(row.dst, NONE);
    assert_eq!((row.len, row.metric), (0, 1024));
    assert_eq!(row.gateway, "fe80::211:22ff:fe33:4455".parse::<Ipv6Addr>().unwrap());
    assert_ne!(flags & RTF_ADDRCONF, 0);
    for line in ["", "0", "0 0 0 0 0", "g 0 0 0 0 0 0 0 0 eth0"] {
        assert_eq!(Row::parse(line), None, "{line:?}");
    }
}
