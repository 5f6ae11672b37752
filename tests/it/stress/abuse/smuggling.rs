//! Request smuggling: requests whose end two servers could see differently. The content of one request is
//! never executed as another.

use super::super::raw::{self, Reply};
use super::harness::Harness;

fn answers(reply: Option<&Reply>) -> usize {
    reply.map_or(0, |reply| reply.text.matches("HTTP/1.1 ").count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_inside_another_is_never_carried_out() {
    let harness = Harness::open(&[("client_timeout", 2_000)]).await;
    let inner = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    let length = inner.len();
    let chunked = format!("{length:x}\r\n{inner}\r\n0\r\n\r\n");
    let shapes = [
        ("two lengths", format!("content-length: 0\r\ncontent-length: {length}\r\n\r\n{inner}"), 1),
        ("a list of lengths", format!("content-length: 0, {length}\r\n\r\n{inner}"), 1),
        ("a signed length", format!("content-length: +{length}\r\n\r\n{inner}"), 1),
        ("a hexadecimal length", format!("content-length: 0x{length:x}\r\n\r\n{inner}"), 1),
        (
            "a length that is too large for numbers",
            format!("content-length: 99999999999999999999999\r\n\r\n{inner}"),
            1,
        ),
        ("a negative length", format!("content-length: -1\r\n\r\n{inner}"), 1),
        ("space before the colon", format!("content-length : {length}\r\n\r\n{inner}"), 1),
        ("a folded header", format!("x-a: b\r\n content-length: {length}\r\n\r\n{inner}"), 1),
        ("a folded length", format!("content-length:\r\n {length}\r\n\r\n{inner}"), 1),
        ("a bare CR", format!("x-a: b\rcontent-length: 0\r\ncontent-length: {length}\r\n\r\n{inner}"), 1),
        ("a zero in a name", format!("x\0a: b\r\ncontent-length: {length}\r\n\r\n{inner}"), 1),
        ("chunked that is not last", format!("transfer-encoding: chunked, identity\r\n\r\n{chunked}"), 1),
        ("an unknown coding", format!("transfer-encoding: xchunked\r\n\r\n{chunked}"), 1),
        ("a coding with a vertical tab", format!("transfer-encoding: \u{b}chunked\r\n\r\n{chunked}"), 1),
        (
            "a chunk of a wrong size",
            format!("transfer-encoding: chunked\r\n\r\n0x{length:x}\r\n{inner}\r\n0\r\n\r\n"),
            1,
        ),
        (
            "a chunk of a size beyond numbers",
            format!("transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{inner}"),
            1,
        ),
        ("a chunk with a negative size", format!("transfer-encoding: chunked\r\n\r\n-1\r\n{inner}"), 1),
        // By RFC 9112 the transfer coding decides, so the content of the chunks is no request.
        (
            "a length and chunks",
            format!("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n{chunked}"),
            1,
        ),
        (
            "chunks and a length",
            format!("transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n{chunked}"),
            1,
        ),
        ("a body", format!("content-length: {length}\r\n\r\n{inner}"), 1),
        ("chunks", format!("transfer-encoding: chunked\r\n\r\n{chunked}"), 1),
        ("no body", format!("content-length: 0\r\n\r\n{inner}"), 2),
    ];
    for host in [&harness.api, &harness.storage, &harness.nodes, &harness.operations] {
        for (what, rest, most) in &shapes {
            let bytes = format!("POST /outer HTTP/1.1\r\nhost: x\r\n{rest}");
            if host == &harness.api && matches!(*what, "a body" | "chunks" | "no body") {
                // Control: valid HTTP gets a response to each request, so the listener does respond. The last
                // request closes the connection, because a client that closes its side counts as gone.
                let last = "GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
                let reply = raw::exchange(host, (bytes + last).as_bytes(), false).await.expect("answers");
                assert_eq!(answers(Some(&reply)), most + 1, "{what}: {reply:?}");
                assert_eq!(reply.text.contains("smuggled"), *most == 2, "{what}: {reply:?}");
                continue;
            }
            let reply = raw::exchange(host, bytes.as_bytes(), true).await;
            let count = answers(reply.as_ref());
            // A listener that rejects a request may close the connection before the next.
            assert!(count <= *most, "{what} at {host}: {count} answers: {reply:?}");
            let reported = reply.map(|reply| reply.text).unwrap_or_default();
            assert!(*most == 2 || !reported.contains("smuggled"), "{what} at {host}: {reported}");
        }
    }
    harness.serve_the_honest(1).await;
    harness.process.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_one_go_are_answered_one_by_one_and_in_order() {
    let harness = Harness::open(&[("client_timeout", 2_000)]).await;
    let key = &harness.second_key;
    let one =
        |path: String| format!("GET /api/v1/api-key/{path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n");
    let mut bytes: String =
        (0..200).map(|number| one(format!("task/number-{number}/detail")) + "\r\n").collect();
    bytes += &(one("balance".to_owned()) + "connection: close\r\n\r\n");
    let reply = raw::exchange(&harness.api, bytes.as_bytes(), false).await.expect("answers");
    let mut rest = reply.text.as_str();
    for number in 0..200 {
        let wanted = format!("there is no task \\\"number-{number}\\\" that");
        let at = rest.find(&wanted).unwrap_or_else(|| panic!("number {number} has no answer in its place"));
        rest = &rest[at + wanted.len()..];
    }
    assert!(rest.contains("wallet_address") && answers(Some(&reply)) == 201);
    harness.process.end();
}
