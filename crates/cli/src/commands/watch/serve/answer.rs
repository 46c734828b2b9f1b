//! A request and its answer, as bytes: as much of HTTP/1.1 (RFC 9112) as it takes to hand out one page.

/// The page's path.
const PATH: &str = "/metrics";

/// The exposition format of Prometheus.
const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How long a request may be, in bytes.
pub(super) const LONGEST: usize = 8192;

/// The answer to a request.
pub(super) fn answer(asked: &[u8], page: &dyn Fn() -> String) -> String {
    if asked.len() > LONGEST {
        return refusal("431 Request Header Fields Too Large", "");
    }
    let line = asked.split(|byte| *byte == b'\n').next().unwrap_or(asked);
    let line = std::str::from_utf8(line).map(str::trim_end);
    let words: Vec<&str> = line
        .map(|line| line.split(' ').collect())
        .unwrap_or_default();
    let [method, target, version] = words[..] else {
        return refusal("400 Bad Request", "");
    };
    let is_token = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let known = matches!(version, "HTTP/1.0" | "HTTP/1.1");
    if !is_token || !target.starts_with('/') || !known || !is_whole(asked) {
        return refusal("400 Bad Request", "");
    }
    if !matches!(method, "GET" | "HEAD") {
        return refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
    }
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    if path != PATH {
        return refusal("404 Not Found", "");
    }
    let page = page();
    let head = head("200 OK", "", CONTENT, page.len());
    match method {
        "HEAD" => head,
        _ => head + &page,
    }
}

/// The empty line has come; lines may end in a mere newline (RFC 9112, 2.2).
pub(super) fn is_whole(asked: &[u8]) -> bool {
    let ends = |end: &[u8]| asked.windows(end.len()).any(|window| window == end);
    ends(b"\r\n\r\n") || ends(b"\n\n")
}

fn refusal(status: &str, more: &str) -> String {
    let body = format!("{status}: the metrics are at {PATH}\n");
    head(status, more, "text/plain; charset=utf-8", body.len()) + &body
}

fn head(status: &str, more: &str, content: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{more}Content-Type: {content}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: &[u8]) -> String {
        answer(request, &|| "page\n".to_owned())
    }

    #[test]
    fn the_page_is_told_to_those_who_ask_for_it() {
        for request in [
            &b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            b"GET /metrics HTTP/1.0\r\n\r\n",
            b"GET /metrics?x=1 HTTP/1.1\r\n\r\n",
            b"GET /metrics HTTP/1.1\n\n",
        ] {
            let answer = asked(request);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(
                answer.contains("\r\nContent-Type: text/plain; version=0.0.4"),
                "{answer}"
            );
            assert!(answer.ends_with("\r\nContent-Length: 5\r\nConnection: close\r\n\r\npage\n"));
        }
        let head = asked(b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(
            head.contains("200 OK") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
    }

    #[test]
    fn whatever_else_is_asked_is_refused() {
        let long = [
            b"GET /metrics HTTP/1.1\r\nx: ",
            &[b'x'; LONGEST][..],
            b"\r\n\r\n",
        ]
        .concat();
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
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{shown}: {answer}"
            );
        }
    }
}
