//! Requests that are too large, too deep, too long, or malformed HTTP. Each gets a readable response, or
//! none, at little cost.

use serde_json::json;

use super::super::raw::{self, Reply};
use super::super::{Intensity, tell};
use super::harness::Harness;
use super::{MIB, ONCE};

fn request(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = match headers.contains("content-length") || headers.contains("transfer-encoding") {
        true => String::new(),
        false => format!("content-length: {}\r\n", body.len()),
    };
    let head = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{length}{headers}\r\n");
    [head.as_bytes(), body].concat()
}

fn expect(reply: Option<Reply>, what: &str, statuses: &[u16]) {
    match reply {
        Some(reply) => {
            let start: String = reply.text.chars().take(300).collect();
            assert!(statuses.contains(&reply.status), "{what}: {start}");
            // A message has at most 2,000 characters, each of which may be escaped.
            assert!(reply.text.len() < 16_000, "{what}: an answer of {} bytes", reply.text.len());
        }
        None => assert!(statuses.contains(&0), "{what}: no answer"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_too_large_or_no_http_are_refused_on_every_listener() {
    let harness = Harness::open(&[("client_timeout", 1_000)]).await;
    let head = |headers: String| request("GET /nothing", &headers, b"");
    let many = |count: usize| (0..count).map(|number| format!("x-{number}: y\r\n")).collect::<String>();
    let cases: [(&str, Vec<u8>, &[u16]); 18] = [
        ("a header of 64 KiB", head(format!("x: {}\r\n", "y".repeat(64 << 10))), &[400, 403, 404, 431]),
        ("a header of 1 MiB", head(format!("x: {}\r\n", "y".repeat(1 << 20))), &[0, 431]),
        ("10,000 headers", head(many(10_000)), &[0, 431]),
        ("101 headers", head(many(101)), &[431]),
        ("a path of 1 MiB", request(&format!("GET /{}", "y".repeat(1 << 20)), "", b""), &[0, 414, 431]),
        ("a method of 1 MiB", request(&format!("{} /", "Y".repeat(1 << 20)), "", b""), &[0, 400, 405, 431]),
        ("HTTP/1.0", b"GET /nothing HTTP/1.0\r\n\r\n".to_vec(), &[400, 403, 404]),
        ("HTTP/2.0", b"GET /nothing HTTP/2.0\r\n\r\n".to_vec(), &[0, 400]),
        ("HTTP/2 by prior knowledge", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[0, 400]),
        ("no version", b"GET /nothing\r\n\r\n".to_vec(), &[0, 400]),
        ("TLS", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], &[0, 400]),
        ("zeros", vec![0; 4_096], &[0, 400]),
        (
            "bad UTF-8 in the path",
            b"GET /\xff\xfe%ff HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
            &[0, 400, 403, 404],
        ),
        ("bad UTF-8 in a header", head("x-api-key: \u{fc}\r\n".to_owned()), &[400, 401, 403, 404]),
        (
            "an absolute target",
            b"GET http://elsewhere.example/nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec(),
            &[400, 403, 404],
        ),
        (
            "CONNECT",
            b"CONNECT inside.example:22 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec(),
            &[400, 403, 404, 405, 501],
        ),
        (
            "a star",
            b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec(),
            &[200, 400, 404, 405],
        ),
        ("TRACE", request("TRACE /", "x-secret: y\r\n", b""), &[400, 403, 404, 405, 501]),
    ];
    for host in [&harness.api, &harness.storage, &harness.operations, &harness.nodes] {
        for (what, bytes, statuses) in &cases {
            let reply = raw::exchange(host, bytes, false).await;
            let reported = reply.as_ref().is_some_and(|reply| reply.text.contains("x-secret"));
            assert!(!reported, "{what} at {host}: the request is echoed: {reply:?}");
            expect(reply, &format!("{what} at {host}"), statuses);
        }
    }
    harness.serve_the_honest(1).await;
    harness.until_released().await;
    assert!(harness.grown() < ONCE, "{} MiB more", harness.grown() / MIB);
    harness.process.end();
}

async fn flood(host: &str, head: &str, piece: &[u8], most: usize) -> usize {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let stream = tokio::net::TcpStream::connect(host).await.expect("the service listens");
    let (mut incoming, mut outgoing) = stream.into_split();
    let mut sent = 0;
    let send = async {
        let _ = outgoing.write_all(head.as_bytes()).await;
        while sent < most && outgoing.write_all(piece).await.is_ok() {
            sent += piece.len();
        }
    };
    let answered = async { drop(incoming.read_to_end(&mut Vec::new()).await) };
    let over = async {
        tokio::select! { () = send => {}, () = answered => {} }
    };
    tokio::time::timeout(raw::BACKSTOP, over).await.expect("a flood is stopped or swallowed");
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_without_end_are_refused_and_never_held() {
    let intensity = Intensity::of_this_run();
    let harness = Harness::open(&[("client_timeout", 1_000)]).await;
    let (most, at_once) = (intensity.times(64, 1_024) << 20, intensity.times(2, 8));
    let key = format!("x-api-key: {}\r\n", harness.second_key);
    let node = format!("x-node-key: {}\r\n", harness.node_key);
    let create = "POST /api/v1/api-key/model/color-extraction/task";
    let (json, form) =
        ("content-type: application/json\r\n", "content-type: multipart/form-data; boundary=b\r\n");
    let (declared, chunked) = ("content-length: 100000000000\r\n", "transfer-encoding: chunked\r\n");
    let piece = vec![b'a'; 64 << 10];
    let chunk = [b"10000\r\n", &piece[..], b"\r\n"].concat();
    let part = b"--b\r\ncontent-disposition: form-data; name=\"x\"\r\n\r\nvalue\r\n".repeat(1_000);
    let cases: Vec<(&str, &str, String, &[u8])> = vec![
        ("a declared body", &harness.api, format!("{create} HTTP/1.1\r\n{key}{json}{declared}"), &piece),
        ("a body in chunks", &harness.api, format!("{create} HTTP/1.1\r\n{key}{json}{chunked}"), &chunk),
        ("a body without a key", &harness.api, format!("{create} HTTP/1.1\r\n{json}{declared}"), &piece),
        ("a form without a field", &harness.storage, format!("POST /b HTTP/1.1\r\n{form}{declared}"), &piece),
        ("a form of fields alone", &harness.storage, format!("POST /b HTTP/1.1\r\n{form}{declared}"), &part),
        ("a put without a signature", &harness.storage, format!("PUT /b/k HTTP/1.1\r\n{declared}"), &piece),
        ("a put in chunks", &harness.storage, format!("PUT /b/k HTTP/1.1\r\n{chunked}"), &chunk),
        (
            "a node's body",
            &harness.nodes,
            format!("POST /nodes/v1/register HTTP/1.1\r\n{node}{json}{declared}"),
            &piece,
        ),
        (
            "a node's file",
            &harness.nodes,
            format!("PUT /nodes/v1/n/tasks/t/1/files/f HTTP/1.1\r\n{node}{declared}"),
            &piece,
        ),
        ("figures with a body", &harness.operations, format!("GET /metrics HTTP/1.1\r\n{declared}"), &piece),
    ];
    let mut sent = 0;
    for (what, host, head, piece) in &cases {
        let head = format!("{head}host: x\r\n\r\n");
        let floods = (0..at_once).map(|_| flood(host, &head, piece, most));
        let (floods, _) = tokio::join!(futures_util::future::join_all(floods), harness.serve_the_honest(1));
        sent += floods.iter().sum::<usize>();
        assert!(harness.grown() < ONCE, "{what}: {} MiB more", harness.grown() / MIB);
    }
    harness.until_released().await;
    let grown = harness.grown() / MIB;
    harness.process.end();
    tell(&format!("{} MiB of bodies without end, {grown} MiB more memory", sent >> 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_long_or_many_part_json_is_refused_by_both_protocols() {
    let harness = Harness::open(&[("client_timeout", 10_000)]).await;
    let key = format!("x-api-key: {}\r\ncontent-type: application/json\r\n", harness.second_key);
    let node_key = format!("x-node-key: {}\r\ncontent-type: application/json\r\n", harness.node_key);
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let digits = "9".repeat(1_000_000);
    let values = [
        ("deep arrays", deep("[", "]")),
        ("deep objects", deep("{\"a\":", "}")),
        ("a number of a million digits", digits.clone()),
        ("a fraction of a million digits", format!("0.{}", &digits[2..])),
        ("an exponent of many digits", format!("1e{}", &digits[..500_000])),
        ("a text of a million digits", format!("\"{}\"", &digits[8..])),
        ("a text of escapes", format!("\"{}\"", "\\u0000".repeat(160_000))),
        ("half a pair", "\"\\ud800\"".to_owned()),
        (
            "many members",
            format!("{{{}\"z\":1}}", (0..60_000).map(|at| format!("\"k{at}\":1,")).collect::<String>()),
        ),
    ];
    for (what, value) in &values {
        for body in [
            value.clone(),
            format!("{{\"input_image\":{value}}}"),
            format!("{{\"angle\":{value},\"template\":\"v_shape\",\"input_image\":\"https://a.example/\"}}"),
        ] {
            let create =
                request("POST /api/v1/api-key/model/color-harmonization/task", &key, body.as_bytes());
            expect(raw::exchange(&harness.api, &create, false).await, what, &[400, 413, 422]);
        }
    }
    let (node, task) = lease(&harness, &node_key).await;
    for (what, value) in &values {
        for body in [
            format!("{{\"output\":{{\"output\":{value}}}}}"),
            format!("{{\"error\":{{\"message\":{value}}}}}"),
            format!("{{\"error\":{{\"message\":\"m\",\"kind\":{value}}}}}"),
            format!("{{\"output\":{value}}}"),
        ] {
            // A text is a message, whose beginning is kept; sending it would end the task.
            if value.starts_with('"') && !body.contains("kind") {
                continue;
            }
            let line = format!("POST /nodes/v1/{node}/tasks/{task}/1/finish");
            let finish = request(&line, &node_key, body.as_bytes());
            expect(raw::exchange(&harness.nodes, &finish, false).await, what, &[400, 413, 422]);
        }
    }
    harness.serve_the_honest(1).await;
    assert!(harness.grown() < ONCE, "{} MiB more", harness.grown() / MIB);
    harness.until_released().await;
    harness.process.end();
}

async fn lease(harness: &Harness, node_key: &str) -> (String, String) {
    let call = async |line: &str, body: serde_json::Value| {
        let bytes = request(line, node_key, body.to_string().as_bytes());
        let reply = raw::exchange(&harness.nodes, &bytes, false).await.expect("an answer");
        serde_json::from_str::<serde_json::Value>(reply.body())
            .unwrap_or_else(|why| panic!("{why}: {reply:?}"))
    };
    let model = "face-mesh";
    let registered = call("POST /nodes/v1/register", json!({ "models": [model] })).await;
    let node = registered["data"]["node"].as_str().expect("a node has a name").to_owned();
    let input = json!({ "input": "https://files.example/face.png" });
    harness.second().post(&format!("/api-key/model/{model}/task"), &input).await.data();
    let leased = call(&format!("POST /nodes/v1/{node}/lease"), json!({ "wait_seconds": 5 })).await;
    (node, leased["data"]["task"].as_str().expect("a task").to_owned())
}
