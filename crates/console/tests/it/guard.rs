//! Access control: admitted browsers, and policies of pages.

use std::time::Duration;

use inferstore::{Client, PollInterval};
use inferstore_console::{Console, LOCAL_POLL};
use inferstore_service::{Config, Service};
use reqwest::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{ANYWHERE, FormBody, Site, picture, seen};

#[tokio::test]
async fn only_a_browser_with_the_token_is_let_in() {
    let site = Site::start().await;
    let visitor = site.open().await;
    assert_eq!(visitor.get("/").await.status, StatusCode::OK);
    let token = site.console.url().split("token=").nth(1).expect("a token").to_owned();
    assert!(visitor.cookie.ends_with(&token) && token.len() == 32, "{}", visitor.cookie);
    assert!(!format!("{:?}", site.console).contains(&token));
    let first = seen(visitor.http.get(site.console.url())).await;
    assert!(first.header("set-cookie").ends_with("Path=/; HttpOnly; SameSite=Strict"));
    assert_eq!(first.header("refresh"), "0; url=/");
    assert!(!first.body.contains(&token));
    for (name, request) in [
        ("no cookie", visitor.http.get(format!("{}/", visitor.origin))),
        (
            "a wrong cookie",
            visitor.http.get(format!("{}/", visitor.origin)).header("cookie", format!("{}0", visitor.cookie)),
        ),
        ("a wrong token", visitor.http.get(format!("{}/?token={}", visitor.origin, "0".repeat(32)))),
        ("a token elsewhere", visitor.http.get(format!("{}/tasks?token={token}", visitor.origin))),
        ("a view", visitor.http.get(format!("{}/view/0", visitor.origin))),
    ] {
        let seen = seen(request).await;
        assert_eq!(seen.status, StatusCode::UNAUTHORIZED, "{name}");
        assert!(!seen.body.contains(&token) && seen.header("set-cookie").is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_browser_is_admitted_by_a_form_with_the_address_or_the_token() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let address = site.console.url();
    let token = address.split("token=").nth(1).expect("a token");
    let page = seen(visitor.http.get(format!("{}/runs", visitor.origin))).await;
    page.says("action=\"/admit\"").says("name=\"page\" value=\"runs\"");
    let send = |text: &str, origin: &str| {
        let form = [("address", text.to_owned()), ("page", "runs".to_owned())];
        let body = form.map(|(name, text)| format!("{name}={}", text.replace('&', "%26"))).join("&");
        let request = visitor.http.post(format!("{}/admit", visitor.origin)).header("origin", origin);
        seen(request.header("content-type", "application/x-www-form-urlencoded").body(body))
    };
    for text in [token, address, &format!(" {address}&page=account ")] {
        let admitted = send(text, &visitor.origin).await;
        assert_eq!(admitted.header("refresh"), "0; url=/runs", "{text}");
        assert!(admitted.header("set-cookie").starts_with(&visitor.cookie), "{text}");
    }
    let wrong = send(&"0".repeat(32), &visitor.origin).await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    wrong.says("this is not the token of this console");
    assert!(wrong.header("set-cookie").is_empty());
    assert_eq!(send(token, "http://attacker.example").await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_console_has_its_address_again_after_a_restart() {
    let service = Service::start(Config::ephemeral()).await.expect("a service starts");
    let client = Client::new(service.base_url(), service.api_key().expect("a key")).expect("a client");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("console");
    let start = || Console::start_beside(service.server(), client.clone(), ANYWHERE, LOCAL_POLL, Some(&file));
    let console = start().await.expect("a console");
    let first = console.url().to_owned();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata().expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "only its owner reads the token");
    }
    // The first console has the port, so the second one gets another port and the same token.
    let second = start().await.expect("a console").url().to_owned();
    assert_ne!(first, second);
    assert_eq!(first.split("token=").nth(1), second.split("token=").nth(1));
    drop(console);
    let port = second.split(['/', '?']).nth(2).expect("an address");
    while TcpStream::connect(port).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let again = start().await.expect("a console").url().to_owned();
    assert_eq!(again, second, "the port of the last one");
    std::fs::write(&file, "damaged").expect("it is written");
    assert_ne!(start().await.expect("a console").url(), second);
}

#[tokio::test]
async fn an_address_with_the_token_leads_to_the_page_that_it_names() {
    let site = Site::start().await;
    let http = site.open().await.http;
    for (page, path) in [
        ("models/haze-removal", "/models/haze-removal"),
        ("tasks/a%2Fb", "/tasks/a%2Fb"),
        ("a'%22><script>", "/a%27%22%3E%3Cscript%3E"),
        ("/attacker.example", "/"),
        ("//attacker.example", "/"),
        ("http:/a", "/"),
        ("a;url=b", "/"),
    ] {
        let seen = seen(http.get(format!("{}&page={page}", site.console.url()))).await;
        assert_eq!(seen.header("refresh"), format!("0; url={path}"), "{page}");
        assert!(seen.body.contains(&format!("href=\"{path}\"")), "{page}: {}", seen.body);
    }
}

#[tokio::test]
async fn another_host_or_origin_is_refused() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let port = visitor.origin.rsplit(':').next().expect("a port").to_owned();
    for host in [
        "attacker.example",
        &format!("attacker.example:{port}"),
        "127.0.0.1",
        "127.0.0.1:1",
        &format!("x.localhost:{port}"),
        "",
    ] {
        let seen = seen(visitor.request(Method::GET, "/").header("host", host)).await;
        assert_eq!(seen.status, StatusCode::FORBIDDEN, "{host}");
    }
    let local = seen(visitor.request(Method::GET, "/").header("host", format!("localhost:{port}"))).await;
    assert_eq!(local.status, StatusCode::OK);
    let own = visitor.origin.clone();
    for (method, origin, expected) in [
        (Method::GET, "http://attacker.example", StatusCode::FORBIDDEN),
        (Method::POST, "http://attacker.example", StatusCode::FORBIDDEN),
        (Method::POST, "http://127.0.0.1:1", StatusCode::FORBIDDEN),
        (Method::POST, "null", StatusCode::FORBIDDEN),
        (Method::POST, "", StatusCode::FORBIDDEN),
        // Rejected for its content, not for its origin.
        (Method::POST, own.as_str(), StatusCode::BAD_REQUEST),
    ] {
        let request = visitor.request(method.clone(), "/models/haze-removal");
        let request = if origin.is_empty() { request } else { request.header("origin", origin) };
        let expected = if method == Method::GET { StatusCode::FORBIDDEN } else { expected };
        assert_eq!(seen(request).await.status, expected, "{method} {origin:?}");
    }
    for (mode, expected) in [("no-cors", StatusCode::FORBIDDEN), ("navigate", StatusCode::OK)] {
        let request = visitor.request(Method::GET, "/account").header("sec-fetch-site", "same-site");
        assert_eq!(seen(request.header("sec-fetch-mode", mode)).await.status, expected, "{mode}");
    }
}

#[tokio::test]
async fn pages_forbid_everything_from_elsewhere() {
    let site = Site::start().await;
    let visitor = site.open().await;
    for path in ["/", "/models/haze-removal", "/runs", "/files/samples", "/account", "/docs", "/nowhere"] {
        let page = visitor.get(path).await;
        let policy = page.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{path}: {policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}");
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(page.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(page.header("cache-control"), "no-store", "{path}");
        for inline in ["<script>", " style=", "onclick=", "javascript:", "src=\"http", "href=\"http"] {
            assert!(
                !page.body.contains(inline) || (path == "/docs" && inline == "href=\"http"),
                "{path}: {inline}"
            );
        }
    }
}

#[tokio::test]
async fn the_key_is_in_no_page_and_no_header() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let run = visitor.run("color-extraction", FormBody::new().file("in.input", "a.png", &picture())).await;
    let result = visitor.result(&run).await;
    let mut pages = vec![result];
    for path in [
        "/",
        "/models/color-extraction",
        "/runs",
        "/files/samples",
        "/account",
        "/docs",
        "/openapi.yaml",
        "/nowhere",
    ] {
        pages.push(visitor.get(path).await);
    }
    for page in pages {
        assert!(!page.body.contains(&site.key), "{}", page.body);
        assert!(!format!("{:?}", page.headers).contains(&site.key));
    }
}

#[tokio::test]
async fn a_file_of_a_stranger_is_never_a_page() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let page = b"<!doctype html><script>alert(1)</script>";
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>";
    let form = FormBody::new().file("files", "evil.html", page).file("files", "evil.svg", svg).file(
        "files",
        "a.png",
        &picture(),
    );
    assert_eq!(visitor.post("/files/documents", form).await.status, StatusCode::SEE_OTHER);
    let listing = visitor.get("/files/documents").await;
    let mut kinds = Vec::new();
    for link in listing.body.split("href=\"/view/").skip(1).filter_map(|rest| rest.split('"').next()) {
        let address = format!("/view/{}", link.split('?').next().unwrap_or_default());
        let file = visitor.get(&address).await;
        assert_eq!(file.status, StatusCode::OK);
        assert_eq!(file.header("content-security-policy"), "sandbox; default-src 'none'");
        assert_eq!(file.header("x-content-type-options"), "nosniff");
        kinds.push((file.header("content-type").to_owned(), file.header("content-disposition").is_empty()));
    }
    kinds.sort();
    assert_eq!(
        kinds,
        [
            ("application/octet-stream".to_owned(), false),
            ("image/png".to_owned(), true),
            ("text/plain; charset=utf-8".to_owned(), true),
        ]
    );
}

#[tokio::test]
async fn text_of_others_stays_text() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let evil = "<img src=x onerror=alert(1)>";
    let controls = site.service.controls().expect("controls");
    let script = inferstore_service::Script::fail(evil);
    controls.let_model("color-extraction", script).await.expect("a script");
    let run = visitor
        .run("color-extraction", FormBody::new().file("in.input", &format!("{evil}.png"), &picture()))
        .await;
    let failed = visitor.result(&run).await;
    failed.says("The model failed").says("&lt;img src=x onerror=alert(1)&gt;");
    let search = visitor.get("/?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%22").await;
    for page in [failed, search] {
        assert!(!page.body.contains("<img src=x"), "{}", page.body);
    }
}

#[tokio::test]
async fn head_says_what_get_would() {
    let site = Site::start().await;
    let visitor = site.open().await;
    let form = FormBody::new().file("files", "a.txt", b"text");
    assert_eq!(visitor.post("/files/covers", form).await.status, StatusCode::SEE_OTHER);
    let page = visitor.get("/files/covers").await;
    let link =
        page.body.split("href=\"/view/").nth(1).and_then(|rest| rest.split('"').next()).expect("a link");
    for path in [
        "/",
        "/models/haze-removal",
        "/runs",
        "/files",
        "/openapi.yaml",
        "/nowhere",
        &format!("/view/{link}"),
    ] {
        let get = visitor.get(path).await;
        let head = seen(visitor.request(Method::HEAD, path)).await;
        assert_eq!(head.status, get.status, "{path}");
        for header in ["content-type", "content-security-policy", "location"] {
            assert_eq!(head.header(header), get.header(header), "{path}: {header}");
        }
        assert!(head.body.is_empty(), "{path}");
    }
    let events = seen(visitor.request(Method::HEAD, "/runs/events")).await;
    assert_eq!(events.header("content-type"), "text/event-stream");
}

#[tokio::test]
async fn strangers_at_the_port_of_the_console_leave_the_service_its_connections() {
    let mut config = Config::ephemeral();
    config.limits.max_connections = 16;
    let service = Service::start(config).await.expect("a service starts");
    let client = Client::new(service.base_url(), service.api_key().expect("a key")).expect("a client");
    let console = Console::start_beside(service.server(), client.clone(), ANYWHERE, LOCAL_POLL, None).await;
    let console = console.expect("a console");
    let address = console.url().trim_start_matches("http://").split('/').next().expect("an address");
    let mut strangers = Vec::new();
    for _ in 0..100 {
        strangers.push(TcpStream::connect(address).await.expect("a connection"));
    }
    client.balance().await.expect("the API responds");
    let mut stranger = TcpStream::connect(address).await.expect("a connection");
    stranger.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nx: ").await.expect("it is sent");
    // Either may come first: the end of the connection, or the response to a too large head.
    let _ = timeout(Duration::from_secs(30), stranger.write_all(&vec![b'x'; 1 << 20])).await.expect("an end");
    let mut response = Vec::new();
    let _ = timeout(Duration::from_secs(30), stranger.read_to_end(&mut response)).await.expect("an end");
    assert!(!response.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_finish_its_request_is_disconnected() {
    let client = Client::new("http://127.0.0.1:1/api/v1", "a key").expect("a client");
    let console = Console::start(client, ANYWHERE, PollInterval::Adaptive).await.expect("a console");
    let address = console.url().trim_start_matches("http://").split('/').next().expect("an address");
    for begun in ["", "GET / HTTP/1.1\r\nhost: a"] {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(begun.as_bytes()).await.expect("it is sent");
        let mut response = Vec::new();
        let ended = timeout(Duration::from_secs(300), stream.read_to_end(&mut response)).await;
        assert!(ended.is_ok(), "{begun:?}");
    }
}
