//! Tests of the classification of etcd's errors.

use super::*;

fn failure(code: Code, message: &str) -> Failure {
    Failure::from(ClientError::GRpcStatus(Status::new(code, message)))
}

#[test]
fn a_write_whose_answer_is_lost_is_indeterminate_and_a_read_is_unavailable() {
    for (code, message) in [
        (Code::Unavailable, "etcdserver: request timed out"),
        (Code::Unavailable, "etcdserver: leader changed"),
        (Code::Unavailable, "etcdserver: server stopped"),
        (Code::Unknown, "transport error"),
        (Code::Unknown, "raft proposal dropped"),
        (Code::Internal, "h2 protocol error"),
        (Code::Cancelled, "timeout expired"),
        (Code::Unavailable, "error reading from server: EOF"),
    ] {
        let lost = failure(code, message);
        assert!(!lost.is_void && lost.then != Then::Fail, "{message}");
        let error = lost.into_error("x", true);
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{message}");
        let error = failure(code, message).into_error("x", false);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{message}");
    }
}

#[test]
fn what_etcd_refused_took_no_effect() {
    for (code, message, kind, then) in [
        (Code::Unavailable, "etcdserver: no leader", ErrorKind::Unavailable, Then::Next),
        (
            Code::ResourceExhausted,
            "etcdserver: too many requests",
            ErrorKind::Unavailable,
            Then::Next,
        ),
        (
            Code::ResourceExhausted,
            "etcdserver: mvcc: database space exceeded",
            ErrorKind::NoSpace,
            Then::Fail,
        ),
        (
            Code::OutOfRange,
            "etcdserver: mvcc: required revision has been compacted",
            ErrorKind::Compacted,
            Then::Fail,
        ),
        (
            Code::NotFound,
            "etcdserver: requested lease not found",
            ErrorKind::LeaseEnded,
            Then::Fail,
        ),
        (
            Code::Unauthenticated,
            "etcdserver: invalid auth token",
            ErrorKind::Unavailable,
            Then::AuthenticateAgain,
        ),
        (
            Code::InvalidArgument,
            "etcdserver: revision of auth store is old",
            ErrorKind::Unavailable,
            Then::AuthenticateAgain,
        ),
        (Code::PermissionDenied, "etcdserver: permission denied", ErrorKind::Denied, Then::Fail),
        (
            Code::InvalidArgument,
            "etcdserver: duplicate key given in txn request",
            ErrorKind::Invalid,
            Then::Fail,
        ),
    ] {
        let refused = failure(code, message);
        assert!(refused.is_void, "{message}");
        assert_eq!((refused.kind, refused.then), (kind, then), "{message}");
        assert_eq!(refused.into_error("x", true).kind(), kind);
    }
    let gone = ClientError::LeaseKeepAliveError("lease not found".to_owned());
    assert_eq!(Failure::from(gone).kind, ErrorKind::LeaseEnded);
}

#[test]
fn what_ends_a_connection_says_nothing_about_the_request() {
    for reason in [h2::Reason::ENHANCE_YOUR_CALM, h2::Reason::INADEQUATE_SECURITY] {
        let status = Status::from_error(Box::new(h2::Error::from(reason)));
        let failure = Failure::from(ClientError::GRpcStatus(status));
        assert_eq!(failure.kind, ErrorKind::Unavailable, "{reason}");
        assert!(!failure.is_void, "{reason}");
    }
}
