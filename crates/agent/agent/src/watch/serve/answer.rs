//! A request and its response, as bytes: the subset of HTTP/1.1 (RFC 9112) for one page.

use httparse::{EMPTY_HEADER, Error, Request, Status};

/// The only path with a page.
const PATH: &str = "/metrics";

/// The longest request that is read, in bytes.
pub(crate) const MAX_REQUEST: usize = 8192;

/// The most header fields that are read.
const MAX_HEADERS: usize = 100;

/// Returns true if a request needs no more bytes, because it is complete or already malformed.
pub(crate) fn is_whole(request: &[u8]) -> bool {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    !matches!(Request::new(&mut headers).parse(request), Ok(Status::Partial))
}

/// Returns the response to a request. `page` is called only if the request gets the page, and
/// returns `None` if there is none.
pub(crate) fn answer(request: &[u8], page: &dyn Fn() -> Option<String>) -> String {
    const TOO_LARGE: &str = "431 Request Header Fields Too Large";
    if request.len() > MAX_REQUEST {
        return refusal(TOO_LARGE, "");
    }
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(Status::Complete(_)) => {}
        Err(Error::TooManyHeaders) => return refusal(TOO_LARGE, ""),
        Ok(Status::Partial) | Err(_) => return refusal("400 Bad Request", ""),
    }
    let (method, target) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
    // No method in use has a small letter, and no proxy asks for a whole URL here.
    if !method.bytes().all(|byte| byte.is_ascii_uppercase()) || !target.starts_with('/') {
        return refusal("400 Bad Request", "");
    }
    if !matches!(method, "GET" | "HEAD") {
        return refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
    }
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    if path != PATH {
        return refusal("404 Not Found", "");
    }
    let Some(page) = page() else {
        return refusal("500 Internal Server Error", "");
    };
    let content_type = format!("{}; charset=utf-8", prometheus::TEXT_FORMAT);
    let head = head("200 OK", "", &content_type, page.len());
    match method {
        "HEAD" => head,
        _ => head + &page,
    }
}

fn refusal(status: &str, more: &str) -> String {
    let body = format!("{status}: the metrics are at {PATH}\n");
    head(status, more, "text/plain; charset=utf-8", body.len()) + &body
}

fn head(status: &str, more: &str, content_type: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{more}Content-Type: {content_type}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: &[u8]) -> String {
        answer(request, &|| Some("page\n".to_owned()))
    }

    #[test]
    fn a_request_for_the_page_gets_it() {
        for request in [
            &b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            b"GET /metrics HTTP/1.0\r\n\r\n",
            b"GET /metrics?x=1 HTTP/1.1\r\n\r\n",
            b"GET /metrics HTTP/1.1\n\n",
        ] {
            let answer = asked(request);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{answer}");
            assert!(answer.ends_with("\r\nContent-Length: 5\r\nConnection: close\r\n\r\npage\n"));
        }
        let head = asked(b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn every_other_request_is_refused() {
        let long =
            [b"GET /metrics HTTP/1.1\r\nx: ", &[b'x'; MAX_REQUEST][..], b"\r\n\r\n"].concat();
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /metrics HTTP/2.0\r\n\r\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"GET  /metrics HTTP/1.1\r\n\r\n", "400"),
            (b"get /metrics HTTP/1.1\r\n\r\n", "400"),
            (b"GET metrics HTTP/1.1\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1\r\n", "400"),
            (b"\r\n\r\n", "400"),
            (b"\xff\xfe\x00\r\n\r\n", "400"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"),
            (&long, "431"),
        ] {
            let answer = asked(request);
            let shown = String::from_utf8_lossy(request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {answer}");
        }
    }
}
