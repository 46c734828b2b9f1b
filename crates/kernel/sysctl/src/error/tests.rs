use super::*;

#[test]
fn every_error_has_a_class() {
    for (errno, class) in [
        (libc::ENOENT, ErrorClass::Dependency),
        (libc::EACCES, ErrorClass::Permission),
        (libc::EROFS, ErrorClass::Permission),
        (libc::EINVAL, ErrorClass::Invalid),
        (libc::EBUSY, ErrorClass::Busy),
        (libc::EIO, ErrorClass::Unknown),
        (4095, ErrorClass::Unknown),
    ] {
        assert_eq!(classify(&io::Error::from_raw_os_error(errno)), class);
    }
    let strange = io::Error::other("of no known kind");
    assert_eq!(classify(&strange), ErrorClass::Unknown);
    assert_eq!(classify(&io::ErrorKind::WriteZero.into()), ErrorClass::Unknown);
}
