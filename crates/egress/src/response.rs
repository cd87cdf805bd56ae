//! What the gate says in HTTP itself: why it refuses, and what would allow it.

use std::io;

use lazaret_policy::network::Denial;

/// 403, with a code for programs and a sentence for people.
pub fn refusal(denial: &Denial) -> Vec<u8> {
    // The first line is what programs that know srt look for.
    let body = format!(
        "Connection blocked by network allowlist\nlazaret: refused ({}): {}\n{}\n",
        denial.reason.code(),
        denial.detail,
        denial.remedy
    );
    let headers =
        format!("X-Lazaret-Reason: {}\r\nX-Proxy-Error: blocked-by-allowlist\r\n", denial.reason.code());
    response("403 Forbidden", &headers, &body)
}

/// The other side could not be reached.
pub fn unreachable(host: &str, error: &io::Error) -> Vec<u8> {
    let status = match error.kind() {
        io::ErrorKind::TimedOut => "504 Gateway Timeout",
        _ => "502 Bad Gateway",
    };
    response(status, "X-Lazaret-Reason: unreachable\r\n", &format!("lazaret: {host}: {error}\n"))
}

/// The request itself is at fault.
pub fn bad_request(why: &str) -> Vec<u8> {
    response("400 Bad Request", "X-Lazaret-Reason: invalid-request\r\n", &format!("lazaret: {why}\n"))
}

fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
