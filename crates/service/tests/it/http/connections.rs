//! Connections: maximum number, timeouts, and the choice of the connection to close.

use std::time::Duration;

use inferstore_service::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::support::{TestResult, api, ask, config, host};
use crate::caller::Caller;

const REQUEST: &str = "GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n";

async fn until_a_new_head_is_out_of_time(service: &Service) -> TestResult {
    let mut silent = TcpStream::connect(api(service)).await?;
    let closed = tokio::time::timeout(Duration::from_secs(30), silent.read(&mut [0; 1])).await?;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    Ok(())
}

#[tokio::test]
async fn an_idle_connection_outlives_the_advised_polling_interval_as_announced() -> TestResult {
    let mut config = config();
    config.limits.head_timeout = Duration::from_millis(200);
    let service = Service::start(config).await?;
    let mut stream = TcpStream::connect(api(&service)).await?;
    let response = ask(&mut stream, REQUEST).await?;
    assert!(response.contains("\r\nkeep-alive: timeout=75\r\n"), "{response}");
    until_a_new_head_is_out_of_time(&service).await?;
    ask(&mut stream, REQUEST).await?;
    Ok(())
}

#[tokio::test]
async fn a_connection_refused_before_its_body_stays_open_as_announced() -> TestResult {
    let mut config = config();
    config.limits.head_timeout = Duration::from_secs(1);
    let service = Service::start(config).await?;
    let mut stream = TcpStream::connect(api(&service)).await?;
    let head = "POST /api/v1/api-key/model/color-extraction/task HTTP/1.1\r\nhost: x\r\nx-api-key: wrong\r\n\
                content-type: application/json\r\ncontent-length: 300000\r\n\r\n";
    let response = ask(&mut stream, head).await?;
    assert!(response.starts_with("HTTP/1.1 401 "), "{response}");
    assert!(response.contains("\r\nkeep-alive: timeout=75\r\n"), "{response}");
    stream.write_all(&vec![b' '; 300_000]).await?;
    until_a_new_head_is_out_of_time(&service).await?;
    ask(&mut stream, REQUEST).await?;
    Ok(())
}

#[tokio::test]
async fn a_request_that_outlasts_the_shutdown_timeout_is_cut_off() -> TestResult {
    const SIZE: usize = 48 << 20;
    let mut config = config();
    config.shutdown_timeout = Duration::from_millis(100);
    let service = Service::start(config).await?;
    let caller = Caller::first(&service)?;
    let url = caller.store("large.bin", "application/octet-stream", &vec![0; SIZE]).await?;
    let host = host(&url).to_owned();
    let path = url.split_once(&host).map(|(_, path)| path).ok_or("a URL has a path")?;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(16 << 10)?;
    let mut stream = socket.connect(host.parse()?).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await?;
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await?;
    assert_eq!(&begin, b"HTTP/1.1 200");
    tokio::time::timeout(Duration::from_secs(30), service.shutdown()).await?;
    let mut rest = Vec::new();
    // The connection may be closed cleanly or reset.
    let _ = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await?;
    assert!(rest.len() < SIZE, "the whole response was sent after the shutdown");
    Ok(())
}

#[tokio::test]
async fn a_head_that_never_ends_does_not_hold_a_connection() -> TestResult {
    let mut config = config();
    config.limits.head_timeout = Duration::from_millis(200);
    let service = Service::start(config).await?;
    for begin in ["", "GET / HTTP/1.1\r\nx: "] {
        let mut stream = TcpStream::connect(api(&service)).await?;
        assert!(ask(&mut stream, begin).await.is_err(), "it is closed");
        let mut stream = TcpStream::connect(api(&service)).await?;
        ask(&mut stream, REQUEST).await?;
        if !begin.is_empty() {
            assert!(ask(&mut stream, begin).await.is_err(), "it is closed");
        }
    }
    Ok(())
}

#[tokio::test]
async fn too_many_connections_close_the_one_that_was_idle_longest() -> TestResult {
    let mut config = config();
    config.limits.max_connections = 8;
    config.limits.head_timeout = Duration::from_mins(1);
    let service = Service::start(config).await?;
    let mut first = TcpStream::connect(api(&service)).await?;
    ask(&mut first, REQUEST).await?;
    let mut idle = Vec::new();
    for _ in 0..6 {
        idle.push(TcpStream::connect(api(&service)).await?);
    }
    // The first connection is used again, and so not the longest idle.
    ask(&mut first, REQUEST).await?;
    for _ in 0..6 {
        let mut newcomer = TcpStream::connect(api(&service)).await?;
        ask(&mut newcomer, REQUEST).await?;
        idle.push(newcomer);
        ask(&mut first, REQUEST).await?;
    }
    let closed = tokio::time::timeout(Duration::from_secs(30), idle[0].read(&mut [0; 1])).await?;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    Ok(())
}

async fn small() -> TestResult<Service> {
    let mut config = config();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    config.limits.max_connections = 8;
    config.limits.head_timeout = Duration::from_mins(5);
    config.limits.response_timeout = Duration::from_mins(5);
    Ok(Service::start(config).await?)
}

async fn is_served(service: &Service) -> TestResult {
    let mut newcomer = TcpStream::connect(api(service)).await?;
    ask(&mut newcomer, REQUEST).await.map(drop)
}

#[tokio::test]
async fn connections_with_the_rest_of_a_refused_body_make_room() -> TestResult {
    let service = small().await?;
    let head = "POST /api/v1/api-key/model/color-extraction/task HTTP/1.1\r\nhost: x\r\n\
                content-type: application/json\r\ncontent-length: 900000\r\n\r\n{";
    let mut strangers = Vec::new();
    for _ in 0..8 {
        let mut stranger = TcpStream::connect(api(&service)).await?;
        assert!(ask(&mut stranger, head).await?.starts_with("HTTP/1.1 401 "));
        strangers.push(stranger);
    }
    is_served(&service).await
}

#[tokio::test]
async fn connections_that_do_not_read_their_responses_make_room() -> TestResult {
    let service = small().await?;
    let requests = "GET /openapi.yaml HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1_000);
    let mut strangers = Vec::new();
    for _ in 0..8 {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4 << 10)?;
        let mut stranger = socket.connect(api(&service).parse()?).await?;
        // Fill the connection until the service reads no further requests (backpressure).
        let blocked = async { while stranger.write_all(requests.as_bytes()).await.is_ok() {} };
        assert!(tokio::time::timeout(Duration::from_secs(1), blocked).await.is_err());
        strangers.push(stranger);
    }
    is_served(&service).await
}

#[tokio::test]
async fn idle_connections_to_the_ports_of_nodes_and_operations_make_room() -> TestResult {
    let service = small().await?;
    let mut strangers = Vec::new();
    for url in [service.nodes_url(), service.operations_url()] {
        for _ in 0..10 {
            strangers.push(TcpStream::connect(host(url.ok_or("it is served")?)).await?);
        }
    }
    is_served(&service).await
}
